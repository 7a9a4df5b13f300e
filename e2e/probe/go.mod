module mctunnel/e2e/probe

go 1.26
