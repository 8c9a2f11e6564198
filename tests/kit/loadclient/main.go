// Loadclient measures servers of catalogs.
//
// "loadclient ready ADDRESS COMMAND..." starts a server and prints the seconds until it first says that it is healthy.
// "loadclient calls FLAGS" makes one call after the other for a time, from a number of callers with a connection each,
// and prints how many it made. The requests are read from standard input, a JSON list of base64 messages, and are taken
// in an order that jumps about among them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	health   = "/grpc.health.v1.Health/Check"
	patience = time.Minute
	stride   = 7919 // a prime, so that the callers go through all requests
)

// raw passes messages on as the bytes they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (raw) Name() string                       { return "proto" }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) > 2 && arguments[0] == "ready":
		return ready(arguments[1], arguments[2:])
	case len(arguments) > 0 && arguments[0] == "calls":
		return calls(arguments[1:])
	}
	return errors.New("usage: loadclient ready ADDRESS COMMAND... | loadclient calls FLAGS")
}

func connect(address string) (*grpc.ClientConn, error) {
	return grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(1<<30)))
}

func ready(address string, command []string) error {
	server := exec.Command(command[0], command[1:]...)
	start := time.Now()
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	for time.Since(start) < patience {
		if connection, err := net.Dial("tcp", address); err == nil {
			connection.Close()
			if err := isHealthy(address); err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(time.Since(start).Seconds())
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("nobody listens on %s", address)
}

func isHealthy(address string) error {
	connection, err := connect(address)
	if err != nil {
		return err
	}
	defer connection.Close()
	var asked, answer []byte
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return connection.Invoke(ctx, health, &asked, &answer, grpc.WaitForReady(true))
}

// load is what the callers do, and what they have counted.
type load struct {
	method   string
	streams  bool
	requests [][]byte
	limit    int64
	deadline time.Time

	next, made, messages, bytes, failures atomic.Int64
	failure                               atomic.Value
}

func calls(arguments []string) error {
	flags := flag.NewFlagSet("calls", flag.ContinueOnError)
	address := flags.String("address", "", "host:port of the server")
	method := flags.String("method", "", "path of the method")
	streams := flags.Bool("streams", false, "the method answers with a stream")
	callers := flags.Int("callers", 1, "how many call at a time")
	shared := flags.Bool("shared", false, "all callers share one connection")
	seconds := flags.Float64("seconds", 2, "for how long")
	limit := flags.Int64("limit", 1<<62, "maximum number of calls")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	l := &load{method: *method, streams: *streams, limit: *limit}
	if err := json.NewDecoder(os.Stdin).Decode(&l.requests); err != nil {
		return err
	}
	var pool []*grpc.ClientConn
	for i := 0; i < *callers && (i == 0 || !*shared); i++ {
		connection, err := connect(*address)
		if err != nil {
			return err
		}
		defer connection.Close()
		var asked, answer []byte
		if err := connection.Invoke(context.Background(), health, &asked, &answer, grpc.WaitForReady(true)); err != nil {
			return err
		}
		pool = append(pool, connection)
	}
	start := time.Now()
	l.deadline = start.Add(time.Duration(*seconds * float64(time.Second)))
	var group sync.WaitGroup
	for i := 0; i < *callers; i++ {
		group.Add(1)
		go func(connection *grpc.ClientConn) {
			defer group.Done()
			l.call(connection)
		}(pool[i%len(pool)])
	}
	group.Wait()
	return l.report(time.Since(start).Seconds())
}

func (l *load) call(connection *grpc.ClientConn) {
	for time.Now().Before(l.deadline) {
		number := l.next.Add(1)
		if number > l.limit {
			return
		}
		request := l.requests[number*stride%int64(len(l.requests))]
		if err := l.one(connection, request); err != nil {
			l.failures.Add(1)
			l.failure.Store(err.Error())
		}
		l.made.Add(1)
	}
}

func (l *load) one(connection *grpc.ClientConn, request []byte) error {
	ctx := context.Background()
	if !l.streams {
		var answer []byte
		err := connection.Invoke(ctx, l.method, &request, &answer)
		l.count(answer)
		return err
	}
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, l.method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		l.count(answer)
	}
}

func (l *load) count(answer []byte) {
	l.messages.Add(1)
	l.bytes.Add(int64(len(answer)))
}

func (l *load) report(seconds float64) error {
	if count := l.failures.Load(); count > 0 {
		return fmt.Errorf("%d of %d calls failed: %v", count, l.made.Load(), l.failure.Load())
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"calls": l.made.Load(), "messages": l.messages.Load(), "bytes": l.bytes.Load(), "seconds": seconds,
	})
}
