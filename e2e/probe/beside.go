package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// beside measures small requests alone, beside one large download and alone again, and prints for each round the p99 in microseconds,
// alone and beside. Whether that is good is for the caller to say, who can measure the same on another way. The p99 of a round is by
// few requests, so a moment in which the machine did something else decides a round; several rounds show what stays.
// The download is a process of its own, as on a machine of its own: it is read at a steady pace, and leaves the cores to whoever else
// wants them. What shows is waiting behind it on the way, not a client or a machine with all cores busy.
func beside(args []string) error {
	flags := flag.NewFlagSet("beside", flag.ExitOnError)
	to := addClientFlags(flags)
	large := addDownloadFlags(flags)
	small := flags.String("small", "/version", "path of the small request")
	rate := flags.Int("rate", 100, "small requests per second, whether or not earlier ones were answered")
	requests := flags.Int("requests", 0, "instead, so many at the same moment, again and again")
	quiet := flags.Duration("quiet", 6*time.Second, "how long each of the two phases without the download is")
	rounds := flags.Int("rounds", 1, "how often all of it is measured")
	watches := flags.Int("watches", 0, "watches that are open all the time")
	_ = flags.Parse(args)
	c, err := to.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if *watches > 0 {
		object := fmt.Sprintf("beside-%d", time.Now().UnixNano())
		if err := c.create(object); err != nil {
			return err
		}
		defer c.delete(object)
		if _, err := c.openWatches(ctx, object, *watches, time.Minute); err != nil {
			return fmt.Errorf("opening watches: %w", err)
		}
	}
	work := load(func(until context.Context) ([]time.Duration, error) { return c.paced(until, *small, *rate) })
	if *requests > 0 {
		work = func(until context.Context) ([]time.Duration, error) { return c.bursts(until, *small, *requests) }
	}
	for range *rounds {
		rate, err := besideOnce(ctx, *quiet, work, func() (float64, error) { return inOtherProcess(to, large) })
		if err == nil && *requests == 0 && rate < float64(*large.pace)/1.5 {
			err = fmt.Errorf("the download had %.0f MB/s, which is too slow to be in anybody's way", rate/1e6)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load is what goes on until the context ends; it tells how long each request took.
type load func(until context.Context) ([]time.Duration, error)

func besideOnce(ctx context.Context, quiet time.Duration, small load, large func() (float64, error)) (float64, error) {
	alone, err := during(ctx, quiet, small)
	if err != nil {
		return 0, fmt.Errorf("small requests alone: %w", err)
	}
	busy, done := context.WithCancel(ctx)
	var (
		rate    float64
		failure error
	)
	go func() {
		defer done()
		rate, failure = large()
	}()
	loaded, err := small(busy)
	if err != nil {
		return 0, fmt.Errorf("small requests beside the download: %w", err)
	}
	if failure != nil {
		return 0, fmt.Errorf("the download: %w", failure)
	}
	again, err := during(ctx, quiet, small)
	if err != nil {
		return 0, fmt.Errorf("small requests alone again: %w", err)
	}
	alone = append(alone, again...)
	a, b := summarise(alone), summarise(loaded)
	fmt.Printf("%d %d %d alone: %v; %d beside: %v, the download %.0f MB/s\n",
		a.p99.Microseconds(), b.p99.Microseconds(), len(alone), a, len(loaded), b, rate/1e6)
	return rate, nil
}

// downloadFlags say what to download.
type downloadFlags struct {
	path        *string
	bytes, pace *int64
}

func addDownloadFlags(flags *flag.FlagSet) downloadFlags {
	return downloadFlags{
		path:  flags.String("download", "", "path of the large download, or its whole URL"),
		bytes: flags.Int64("bytes", 1<<30, "its expected length"),
		pace:  flags.Int64("pace", 100<<20, "bytes per second of the download, 0 for as fast as it goes"),
	}
}

// inOtherProcess runs download with the same flags, and tells its bytes per second.
func inOtherProcess(to clientFlags, large downloadFlags) (float64, error) {
	command := exec.Command("nice", "-n", "19", os.Args[0], "download", "-server", *to.server, "-token-file", *to.tokenFile, "-ca-file", *to.caFile,
		"-server-name", *to.serverName, "-http1="+strconv.FormatBool(*to.http1), "-download", *large.path,
		"-bytes", strconv.FormatInt(*large.bytes, 10), "-pace", strconv.FormatInt(*large.pace, 10))
	command.Stderr = os.Stderr
	printed, err := command.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(printed)), 64)
}

// download reads one large answer and prints its bytes per second.
func download(args []string) error {
	flags := flag.NewFlagSet("download", flag.ExitOnError)
	to := addClientFlags(flags)
	large := addDownloadFlags(flags)
	_ = flags.Parse(args)
	c, err := to.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	length, took, err := c.getPaced(ctx, *large.path, *large.pace)
	if err != nil || length != *large.bytes {
		return fmt.Errorf("%d of %d bytes in %v: %w", length, *large.bytes, took, err)
	}
	fmt.Println(float64(length) / took.Seconds())
	return nil
}

func during(ctx context.Context, duration time.Duration, work load) ([]time.Duration, error) {
	until, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	return work(until)
}

// bursts sends requests at the same moment, and again when all are answered, until the context ends.
func (c *client) bursts(until context.Context, path string, requests int) ([]time.Duration, error) {
	var all []time.Duration
	for until.Err() == nil {
		times, err := c.burst(path, requests, time.Minute)
		if err != nil {
			return nil, err
		}
		all = append(all, times...)
	}
	return all, nil
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
