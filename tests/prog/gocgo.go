// SPDX-License-Identifier: Apache-2.0

// gocgo - C's malloc by three ways: from Go, from Go that C called back, and from another goroutine. usage: gocgo COUNT [BYTES]
// With BYTES it touches them and waits for the end of its input.
package main

/*
#include <stdlib.h>
extern void goBack(int n);
static void *keep(int n)
{
	char *block = malloc((size_t)n);
	for (int i = 0; i < n; i += 4096)
		block[i] = 1;
	return block;
}

static int through(int n) { goBack(n); return n; }
*/
import "C"
import (
	"fmt"
	"os"
	"strconv"
)

var bytes = 48

//go:noinline
func allocate(n int) {
	for i := 0; i < n; i++ {
		C.keep(C.int(bytes))
	}
}

//export goBack
func goBack(n C.int) { allocate(int(n)) }

//go:noinline
func byCallback(n int) int { return int(C.through(C.int(n))) + 1 }

//go:noinline
func beside(n int, done chan bool) {
	allocate(n)
	done <- true
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	if len(os.Args) > 2 {
		bytes, _ = strconv.Atoi(os.Args[2])
	}
	allocate(n)
	byCallback(n)
	done := make(chan bool)
	go beside(n, done)
	<-done
	fmt.Println("done")
	if len(os.Args) > 2 {
		os.Stdin.Read(make([]byte, 1))
	}
}
