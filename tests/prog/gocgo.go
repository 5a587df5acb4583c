// SPDX-License-Identifier: Apache-2.0

// gocgo - C's malloc by three ways: from Go, from Go that C called back, and from another goroutine. usage: gocgo COUNT
package main

/*
#include <stdlib.h>
extern void goBack(int n);
static void *keep(int n) { return malloc((size_t)n); }
static int through(int n) { goBack(n); return n; }
*/
import "C"
import (
	"fmt"
	"os"
	"strconv"
)

//go:noinline
func allocate(n int) {
	for i := 0; i < n; i++ {
		C.keep(48)
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
	allocate(n)
	byCallback(n)
	done := make(chan bool)
	go beside(n, done)
	<-done
	fmt.Println("done")
}
