// SPDX-License-Identifier: Apache-2.0

// goheap: a heap of small and large objects, three of four dropped, beside runtime.MemStats.
//
// usage: goheap MIB [churn|split|paced]
// Prints one line "ready NAME=BYTES ..." and waits for the end of stdin. With "split" pages in the middle of spans have been
// advised about, or made read-only, so that the kernel cuts the heap into some hundred mappings. With "paced" it is collected further.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"unsafe"
)

type node struct {
	next *node
	data [3]uintptr
}

var (
	keep  [][]byte
	nodes *node
	sink  []byte
)

func grow(depth int, in chan int) int {
	var room [1024]byte
	room[depth%1024] = byte(depth)
	if depth > 0 {
		return grow(depth-1, in) + int(room[depth%1024])
	}
	return <-in
}

const madvDontdump = 16

// split treats the page otherwise in which the middle of the block lies.
func split(block []byte, readOnly bool) {
	middle := unsafe.Pointer(&block[len(block)/2])
	page := unsafe.Slice((*byte)(unsafe.Add(middle, -int(uintptr(middle)%4096))), 4096)
	err := syscall.Madvise(page, madvDontdump)
	if err == nil && readOnly {
		err = syscall.Mprotect(page, syscall.PROT_READ)
	}
	if err != nil {
		panic(err)
	}
}

func main() {
	mode := ""
	if len(os.Args) > 2 {
		mode = os.Args[2]
	}
	mib, _ := strconv.Atoi(os.Args[1])
	seed := uint64(88172645463325252)
	next := func() uint64 {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		return seed
	}
	for total := 0; total < mib<<20; {
		size := 16 << (next() % 10)
		size += int(next() % uint64(size))
		if next()&1023 == 0 {
			size = 300000
		}
		block := make([]byte, size)
		for i := 0; i < size; i += 512 {
			block[i] = 1
		}
		keep = append(keep, block)
		total += size
		if next()&1 == 0 {
			nodes = &node{next: nodes}
		}
	}
	for i := range keep {
		if i%4 != 0 {
			keep[i] = nil
		}
	}
	in := make(chan int)
	for i := 0; i < 64; i++ {
		go grow(20, in)
	}
	runtime.GC()
	if mode != "churn" {
		// twice: the second ends the first one's sweeping
		runtime.GC()
		if mode != "paced" {
			debug.SetGCPercent(-1)
		}
	}
	for i, cut := 0, 0; mode == "split" && i < len(keep) && cut < 300; i += 40 {
		if len(keep[i]) > 0 {
			split(keep[i], len(keep[i]) >= 300000)
			cut++
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	os.Stdout.WriteString(fmt.Sprintf("ready HeapAlloc=%d HeapInuse=%d HeapIdle=%d HeapReleased=%d StackInuse=%d HeapObjects=%d NextGC=%d Version=%s\n",
		m.HeapAlloc, m.HeapInuse, m.HeapIdle, m.HeapReleased, m.StackInuse, m.HeapObjects, m.NextGC, runtime.Version()))
	for mode == "churn" {
		i := next() % uint64(len(keep))
		sink = make([]byte, 16<<(i%8))
		keep[i] = sink
	}
	var one [1]byte
	for {
		if n, err := os.Stdin.Read(one[:]); n == 0 || err != nil {
			break
		}
	}
	runtime.KeepAlive(nodes)
	os.Exit(len(keep) & 0)
}
