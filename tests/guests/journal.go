// End-to-end test: a journal in a pool, in Go, for `perdure check`.
//
//	journal POOL ENTRIES [no-sync]     recovers, and appends so many
//	journal POOL recover               recovers
//
// An entry is synchronised before the count that leads to it; with no-sync it is not. Recovery ends with 3 if
// an entry is not what was appended.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	page  = 4096
	pages = 4
)

type journal struct {
	bytes []byte
	syncs bool
}

//go:noinline
func (j *journal) sync(offset int) {
	start := uintptr(unsafe.Pointer(&j.bytes[offset/page*page]))
	if _, _, refusal := syscall.Syscall(syscall.SYS_MSYNC, start, page, syscall.MS_SYNC); refusal != 0 {
		fmt.Fprintln(os.Stderr, "msync:", refusal)
		os.Exit(2)
	}
}

func (j *journal) count() uint64 {
	return binary.LittleEndian.Uint64(j.bytes)
}

func place(number uint64) int {
	return page + 64*int(number)
}

//go:noinline
func (j *journal) write(number uint64) {
	at := place(number)
	binary.LittleEndian.PutUint64(j.bytes[at:], 3*number+1) // the entry
	if j.syncs {
		j.sync(at)
	}
}

//go:noinline
func (j *journal) add() {
	number := j.count()
	j.write(number)
	binary.LittleEndian.PutUint64(j.bytes, number+1)
	j.sync(0)
}

func (j *journal) recover() {
	for number := uint64(0); number < j.count(); number++ {
		if binary.LittleEndian.Uint64(j.bytes[place(number):]) != 3*number+1 {
			fmt.Fprintln(os.Stderr, "journal: entry", number, "is not what was appended")
			os.Exit(3)
		}
	}
}

func open(path string) []byte {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = syscall.Fallocate(int(file.Fd()), 0, 0, pages*page)
	}
	var bytes []byte
	if err == nil {
		const how = syscall.PROT_READ | syscall.PROT_WRITE
		bytes, err = syscall.Mmap(int(file.Fd()), 0, pages*page, how, syscall.MAP_SHARED)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, path, err)
		os.Exit(2)
	}
	return bytes
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: journal POOL ENTRIES [no-sync] | journal POOL recover")
		os.Exit(2)
	}
	j := &journal{open(os.Args[1]), len(os.Args) < 4 || os.Args[3] != "no-sync"}
	j.recover()
	entries, _ := strconv.Atoi(os.Args[2])
	for range entries {
		j.add()
	}
}
