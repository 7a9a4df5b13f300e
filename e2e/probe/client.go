package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// client speaks to one cluster with a bearer token.
type client struct {
	http  *http.Client
	base  string
	token string
}

// clientFlags are the flags that every client command has.
type clientFlags struct {
	server, tokenFile, caFile, serverName *string
	http1                                 *bool
}

func addClientFlags(flags *flag.FlagSet) clientFlags {
	return clientFlags{
		server:     flags.String("server", "", "URL of the cluster, as in a kubeconfig"),
		tokenFile:  flags.String("token-file", "", "file with the bearer token"),
		caFile:     flags.String("ca-file", "", "file with the CA of the server"),
		serverName: flags.String("server-name", "", "name to expect in the server's certificate"),
		http1:      flags.Bool("http1", false, "do not offer HTTP/2"),
	}
}

func (f clientFlags) client() (*client, error) {
	token, err := os.ReadFile(*f.tokenFile)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(*f.caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("no certificate in %s", *f.caFile)
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     &tls.Config{RootCAs: pool, ServerName: *f.serverName},
		ForceAttemptHTTP2:   !*f.http1,
		MaxIdleConnsPerHost: 2000,
	}
	return &client{
		http:  &http.Client{Transport: transport},
		base:  strings.TrimSuffix(*f.server, "/"),
		token: strings.TrimSpace(string(token)),
	}, nil
}

// do sends one request, to a path of the cluster or to a whole URL; an answer other than 2xx is an error.
func (c *client) do(ctx context.Context, method, path, contentType, body string) (*http.Response, error) {
	url := path
	if strings.HasPrefix(path, "/") {
		url = c.base + path
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("authorization", "Bearer "+c.token)
	if contentType != "" {
		request.Header.Set("content-type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s %s", method, path, response.Status, text)
	}
	return response, nil
}

// get reads a whole answer and tells its length and how long it took.
func (c *client) get(ctx context.Context, path string) (int64, time.Duration, error) {
	return c.getPaced(ctx, path, 0)
}

// getPaced reads no faster than pace, in bytes per second; 0 is no limit.
func (c *client) getPaced(ctx context.Context, path string, pace int64) (int64, time.Duration, error) {
	began := time.Now()
	response, err := c.do(ctx, http.MethodGet, path, "", "")
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	if pace == 0 {
		n, err := io.Copy(io.Discard, response.Body)
		return n, time.Since(began), err
	}
	for n := int64(0); ; {
		m, err := io.CopyN(io.Discard, response.Body, 256<<10)
		n += m
		if errors.Is(err, io.EOF) {
			return n, time.Since(began), nil
		}
		if err != nil {
			return n, time.Since(began), err
		}
		time.Sleep(time.Duration(float64(n)/float64(pace)*float64(time.Second)) - time.Since(began))
	}
}

// summary names the usual quantiles of times.
type summary struct{ p50, p99, max time.Duration }

func summarise(times []time.Duration) summary {
	if len(times) == 0 {
		return summary{}
	}
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[int(q*float64(len(times)-1))] }
	return summary{p50: at(0.5), p99: at(0.99), max: at(1)}
}

func (s summary) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v p99 %v max %v", round(s.p50), round(s.p99), round(s.max))
}
