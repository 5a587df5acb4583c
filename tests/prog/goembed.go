// SPDX-License-Identifier: Apache-2.0

// goembed: a Go program that keeps its own books by libbyteledger. usage: goembed ADDR:PORT MIB
// Prints "ready NAME=BYTES ..." (runtime.MemStats) and waits for the end of stdin.
package main

/*
#include <byteledger.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"
)

var keep [][]byte

func deep(n int, in chan int) int {
	var room [1024]byte
	room[n%1024] = byte(n)
	if n > 0 {
		return deep(n-1, in) + int(room[n%1024])
	}
	return <-in
}

func main() {
	mib, _ := strconv.Atoi(os.Args[2])
	for i := 0; i < mib; i++ {
		b := make([]byte, 1<<20)
		for j := range b {
			b[j] = 1
		}
		keep = append(keep, b)
	}
	in := make(chan int)
	for i := 0; i < 64; i++ {
		go deep(100, in) // 64 stacks of 128 KiB or more
	}
	address := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(address))
	if rc := C.byteledger_serve(address); rc < 0 {
		fmt.Fprintln(os.Stderr, "cannot serve:", rc)
		os.Exit(1)
	}
	for i := 0; i < 3; i++ {
		runtime.GC()
		runtime.Gosched()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("ready HeapAlloc=%d HeapInuse=%d StackInuse=%d\n", m.HeapAlloc, m.HeapInuse, m.StackInuse)
	os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(keep)
}
