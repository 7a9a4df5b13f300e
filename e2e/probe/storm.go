package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// storm opens many watches, sends many requests at the same moment, and then wants every watch to see one more change.
func storm(args []string) error {
	flags := flag.NewFlagSet("storm", flag.ExitOnError)
	to := addClientFlags(flags)
	watches := flags.Int("watches", 150, "concurrent watches")
	requests := flags.Int("requests", 1000, "concurrent requests")
	limit := flags.Duration("limit", 10*time.Second, "for each of the three steps")
	_ = flags.Parse(args)
	c, err := to.client()
	if err != nil {
		return err
	}

	object := fmt.Sprintf("storm-%d", time.Now().UnixNano())
	if err := c.create(object); err != nil {
		return err
	}
	defer c.delete(object)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	field, err := c.openWatches(ctx, object, *watches, *limit)
	if err != nil {
		return fmt.Errorf("opening watches: %w", err)
	}
	opening := time.Since(began)
	times, err := c.burst("/api/v1/namespaces/default/pods", *requests, *limit)
	if err != nil {
		return fmt.Errorf("requests beside watches: %w", err)
	}
	began = time.Now()
	if err := c.touch(object); err != nil {
		return err
	}
	if err := field.expect("storm-touched", *limit); err != nil {
		return fmt.Errorf("a change after the requests: %w", err)
	}
	fmt.Printf("%d watches open within %v; %d requests: %v; a change seen by all within %v; the limit of each is %v\n",
		*watches, opening.Round(time.Millisecond), *requests, summarise(times), time.Since(began).Round(time.Millisecond), *limit)
	return nil
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func (c *client) create(name string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
	return c.write(http.MethodPost, configMaps, "application/json", body)
}

func (c *client) touch(name string) error {
	return c.write(http.MethodPatch, configMaps+"/"+name, "application/merge-patch+json", `{"data":{"state":"storm-touched"}}`)
}

func (c *client) delete(name string) {
	_ = c.write(http.MethodDelete, configMaps+"/"+name, "", "")
}

func (c *client) write(method, path, contentType, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	response, err := c.do(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// watchField is a set of watches; each reports every line it receives.
type watchField struct {
	lines chan watchLine
	count int
}

type watchLine struct {
	watch int
	text  string
	err   error
}

// openWatches returns when each watch has seen the object once.
func (c *client) openWatches(ctx context.Context, object string, count int, limit time.Duration) (*watchField, error) {
	field := &watchField{lines: make(chan watchLine, count), count: count}
	path := configMaps + "?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D" + object
	for watch := range count {
		go c.watch(ctx, path, watch, field.lines)
	}
	return field, field.expect(object, limit)
}

func (c *client) watch(ctx context.Context, path string, watch int, lines chan<- watchLine) {
	report := func(line watchLine) {
		select {
		case lines <- line:
		case <-ctx.Done():
		}
	}
	response, err := c.do(ctx, http.MethodGet, path, "", "")
	if err != nil {
		report(watchLine{watch: watch, err: err})
		return
	}
	defer response.Body.Close()
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		report(watchLine{watch: watch, text: scanner.Text()})
	}
	err = scanner.Err()
	if err == nil {
		err = errors.New("the watch ended")
	}
	report(watchLine{watch: watch, err: err})
}

// expect waits until every watch has reported a line with text in it.
func (f *watchField) expect(text string, limit time.Duration) error {
	seen := make(map[int]bool)
	deadline := time.After(limit)
	for len(seen) < f.count {
		select {
		case line := <-f.lines:
			if line.err != nil {
				return fmt.Errorf("watch %d: %w", line.watch, line.err)
			}
			if strings.Contains(line.text, text) {
				seen[line.watch] = true
			}
		case <-deadline:
			return fmt.Errorf("only %d of %d watches saw it within %v", len(seen), f.count, limit)
		}
	}
	return nil
}

// burst sends all requests at the same moment.
func (c *client) burst(path string, requests int, limit time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	times := make([]time.Duration, requests)
	failures := make([]error, requests)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			<-start
			_, times[i], failures[i] = c.get(ctx, path)
		})
	}
	close(start)
	group.Wait()
	failed, first := 0, error(nil)
	for _, err := range failures {
		if err != nil {
			failed++
			first = err
		}
	}
	if failed > 0 {
		return nil, fmt.Errorf("%d of %d failed, one of them: %w", failed, requests, first)
	}
	return times, nil
}
