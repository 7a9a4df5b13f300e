package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
)

// serve answers /ping with the path and query it was asked for, and /bytes?n=N with N zero bytes.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	listen := flags.String("listen", ":8080", "address to listen on")
	tlsListen := flags.String("tls-listen", "", "address to listen on with TLS")
	tlsDir := flags.String("tls-dir", "", "where tls.crt and tls.key are")
	name := flags.String("name", "", "the cluster's name, sent as header x-probe-name")
	_ = flags.Parse(args)

	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-probe-name", *name)
		fmt.Fprintln(w, r.RequestURI)
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("content-length", strconv.FormatInt(n, 10))
		_, _ = io.CopyN(w, zeros{}, n)
	})
	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(*listen, mux) }()
	if *tlsListen != "" {
		file := func(name string) string { return filepath.Join(*tlsDir, name) }
		go func() { failed <- http.ListenAndServeTLS(*tlsListen, file("tls.crt"), file("tls.key"), mux) }()
	}
	return <-failed
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
