package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"
)

// beside measures small requests alone and then beside one large download, and wants the p99 not to grow by more than a factor.
// A p99 below a floor is good enough whatever it was before: a few milliseconds more are the scheduler's, not the tunnel's.
// The download is read at a steady pace, so that what shows is waiting behind it on the way, not a machine with all cores busy.
func beside(args []string) error {
	flags := flag.NewFlagSet("beside", flag.ExitOnError)
	to := addClientFlags(flags)
	download := flags.String("download", "", "path of the large download")
	bytes := flags.Int64("bytes", 1<<30, "its expected length")
	small := flags.String("small", "/version", "path of the small request")
	rate := flags.Int("rate", 100, "small requests per second")
	factor := flags.Float64("factor", 2, "how much the p99 may grow")
	floor := flags.Duration("floor", 50*time.Millisecond, "a p99 that is good enough however much it grew")
	pace := flags.Int64("pace", 100<<20, "bytes per second of the download, 0 for as fast as it goes")
	limit := flags.Duration("limit", 2*time.Minute, "for the download")
	_ = flags.Parse(args)
	c, err := to.client()
	if err != nil {
		return err
	}
	other, err := to.client() // with connections of its own: what HTTP/2 does within one connection is not the question
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()

	quiet, stop := context.WithTimeout(ctx, 6*time.Second)
	defer stop()
	alone, err := c.paced(quiet, *small, *rate)
	if err != nil {
		return fmt.Errorf("small requests alone: %w", err)
	}
	var length int64
	var took time.Duration
	var failure error
	busy, done := context.WithCancel(ctx)
	go func() {
		defer done()
		length, took, failure = other.getPaced(ctx, *download, *pace)
	}()
	loaded, err := c.paced(busy, *small, *rate)
	if err != nil {
		return fmt.Errorf("small requests beside the download: %w", err)
	}
	if failure != nil || length != *bytes {
		return fmt.Errorf("the download: %d of %d bytes: %w", length, *bytes, failure)
	}
	a, b := summarise(alone), summarise(loaded)
	fmt.Printf("%d alone: %v; %d beside %d MB in %v: %v\n", len(alone), a, len(loaded), length>>20, took.Round(time.Millisecond), b)
	if ratio := float64(b.p99) / float64(a.p99); ratio > *factor && b.p99 > *floor {
		return fmt.Errorf("p99 grew %.1f-fold: alone %v; beside the download %v", ratio, a, b)
	}
	return nil
}

// paced sends requests at a steady rate until the context ends, whether or not earlier ones were answered.
func (c *client) paced(until context.Context, path string, rate int) ([]time.Duration, error) {
	var (
		group   sync.WaitGroup
		lock    sync.Mutex
		times   []time.Duration
		failure error
	)
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for until.Err() == nil {
		<-ticker.C
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_, took, err := c.get(ctx, path)
			lock.Lock()
			defer lock.Unlock()
			times = append(times, took)
			if err != nil {
				failure = err
			}
		})
	}
	group.Wait()
	return times, failure
}
