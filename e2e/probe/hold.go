package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
)

// hold upgrades a connection, prints `up`, and reads until it ends. A clean end is success; a cut is an error. This tells apart
// what kubectl does not when it speaks SPDY.
func hold(args []string) error {
	flags := flag.NewFlagSet("hold", flag.ExitOnError)
	to := addClientFlags(flags)
	path := flags.String("path", "", "path to upgrade")
	protocol := flags.String("upgrade", "SPDY/3.1", "protocol to upgrade to")
	_ = flags.Parse(args)
	*to.http1 = true
	c, err := to.client()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.base+*path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("authorization", "Bearer "+c.token)
	request.Header.Set("connection", "Upgrade")
	request.Header.Set("upgrade", *protocol)
	request.Header.Set("x-stream-protocol-version", "v4.channel.k8s.io")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("not upgraded: %s", response.Status)
	}
	fmt.Println("up")
	if _, err := io.Copy(io.Discard, response.Body); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
