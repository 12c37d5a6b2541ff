// End-to-end test: the Go runtime, with its own scheduler, stacks and garbage collector.
//
//	goroutines [GOROUTINES]      default 64
//
// Goroutines, channels, select, mutexes, maps, growing stacks, panics, timers and garbage
// collection under pressure. Always true: the output depends on the argument alone, never on
// how goroutines interleave or how many processors there are.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pipeline squares numbers in several workers and puts the results back in order.
func pipeline(workers int) uint64 {
	type job struct{ index, value int }
	jobs := make(chan job)
	results := make(chan job, 8)
	var group sync.WaitGroup
	for range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := range jobs {
				results <- job{j.index, j.value * j.value}
			}
		}()
	}
	go func() {
		for i := range workers * 20 {
			jobs <- job{i, i + 1}
		}
		close(jobs)
		group.Wait()
		close(results)
	}()
	squares := make([]int, workers*20)
	for r := range results {
		squares[r.index] = r.value
	}
	digest := fnv.New64a()
	for _, square := range squares {
		fmt.Fprintf(digest, "%d,", square)
	}
	return digest.Sum64()
}

// ring passes a token around a ring of goroutines; each adds its number.
func ring(size, laps int) int {
	first := make(chan int)
	in := first
	for i := range size {
		out := make(chan int)
		go func(in, out chan int) {
			for token := range in {
				out <- token + i
			}
			close(out)
		}(in, out)
		in = out
	}
	token := 0
	for range laps {
		first <- token
		token = <-in
	}
	close(first)
	<-in
	return token
}

// counters updates one map under a mutex, one sync.Map and one atomic from all goroutines.
func counters(goroutines int) (string, int64) {
	var mutex sync.Mutex
	counts := map[string]int{}
	var shared sync.Map
	var total atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range 50 {
				key := "key" + strconv.Itoa((g*5+i)%17)
				mutex.Lock()
				counts[key] += g + 1
				mutex.Unlock()
				shared.LoadOrStore(key, len(key))
				total.Add(int64(i))
				if i%10 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	group.Wait()
	keys := make([]string, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var text strings.Builder
	sharedKeys := 0
	shared.Range(func(_, _ any) bool { sharedKeys++; return true })
	for _, key := range keys[:3] {
		fmt.Fprintf(&text, "%s=%d ", key, counts[key])
	}
	fmt.Fprintf(&text, "of %d and %d keys", len(counts), sharedKeys)
	return text.String(), total.Load()
}

type tree struct {
	left, right *tree
	payload     [4]uint64
}

func grow(depth int, seed uint64) *tree {
	if depth == 0 {
		return nil
	}
	node := &tree{payload: [4]uint64{seed, seed * 3, seed * 5, seed * 7}}
	node.left = grow(depth-1, seed*2)
	node.right = grow(depth-1, seed*2+1)
	return node
}

func (t *tree) sum() uint64 {
	if t == nil {
		return 0
	}
	return t.payload[0] + t.payload[3] + t.left.sum() + t.right.sum()
}

// garbage keeps a few trees alive while many more die, and collects in between.
func garbage(rounds int) (uint64, bool) {
	kept := make([]*tree, 4)
	var fold uint64
	for i := range rounds {
		kept[i%len(kept)] = grow(8, uint64(i+1))
		if i%8 == 7 {
			runtime.GC()
		}
		for _, t := range kept {
			fold = fold*31 + t.sum()
		}
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return fold, stats.NumGC > 0
}

// deepStack recurses far enough that the goroutine's stack is moved several times.
func deepStack(depth int) int {
	var frame [64]int
	frame[depth%64] = depth
	if depth == 0 {
		return 0
	}
	return deepStack(depth-1) + frame[depth%64]
}

// selects multiplexes channels, a timer and a cancelled context.
func selects() string {
	fast, slow := make(chan string), make(chan string)
	go func() { fast <- "fast" }()
	go func() {
		time.Sleep(20 * time.Millisecond)
		slow <- "slow"
	}()
	var order []string
	for range 2 {
		select {
		case word := <-fast:
			order = append(order, word)
		case word := <-slow:
			order = append(order, word)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer cancel()
	select {
	case <-ctx.Done():
		order = append(order, ctx.Err().Error())
	case <-slow:
		order = append(order, "wrong")
	}
	ticks := 0
	ticker := time.NewTicker(time.Millisecond)
	for range ticker.C {
		if ticks++; ticks == 3 {
			ticker.Stop()
			break
		}
	}
	return strings.Join(append(order, strconv.Itoa(ticks)+" ticks"), ", ")
}

var errExpected = errors.New("expected")

// recovered turns panics, explicit and by the runtime, into errors.
func recovered(cause func()) (err error) {
	defer func() {
		switch value := recover().(type) {
		case error:
			err = fmt.Errorf("recovered: %w", value)
		case nil:
			err = errors.New("nothing to recover")
		default:
			err = fmt.Errorf("recovered: %v", value)
		}
	}()
	cause()
	return nil
}

func main() {
	goroutines := 64
	if len(os.Args) > 1 {
		number, err := strconv.Atoi(os.Args[1])
		if err != nil || number < 1 || number > 10000 {
			fmt.Fprintln(os.Stderr, "usage: goroutines [GOROUTINES (1 to 10000)]")
			os.Exit(2)
		}
		goroutines = number
	}
	fmt.Printf("pipeline: %016x\n", pipeline(goroutines/4+1))
	fmt.Printf("ring: %d\n", ring(goroutines, 20))
	text, total := counters(goroutines)
	fmt.Printf("counters: %s, total %d\n", text, total)
	fold, collected := garbage(32)
	fmt.Printf("garbage: fold %016x, collected %v\n", fold, collected)
	fmt.Printf("stack: %d\n", deepStack(2000))
	fmt.Printf("select: %s\n", selects())
	var nothing *tree
	err := recovered(func() { panic(errExpected) })
	fmt.Printf("panic: %v, is expected: %v\n", err, errors.Is(err, errExpected))
	fmt.Printf("nil: %v\n", recovered(func() { nothing.payload[0] = 1 }))
	fmt.Printf("bounds: %v\n", recovered(func() { _ = make([]int, 3)[goroutines+3] }))
	before := time.Now()
	time.Sleep(3 * time.Millisecond)
	fmt.Printf("sleep: at least as long %v\n", time.Since(before) >= 3*time.Millisecond)
	fmt.Println("goroutines: done")
}
