// The OTLP receiver of the OpenTelemetry collector. What it takes is written as lines of OTLP's JSON.
//
//	receiver GRPC-ADDRESS HTTP-ADDRESS FILE
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	file, err := os.OpenFile(os.Args[3], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(err)
	var lock sync.Mutex
	write := func(line []byte, err error) error {
		if err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		_, err = file.Write(append(line, '\n'))
		return err
	}
	traces, err := consumer.NewTraces(func(_ context.Context, taken ptrace.Traces) error {
		return write((&ptrace.JSONMarshaler{}).MarshalTraces(taken))
	})
	check(err)
	metrics, err := consumer.NewMetrics(func(_ context.Context, taken pmetric.Metrics) error {
		return write((&pmetric.JSONMarshaler{}).MarshalMetrics(taken))
	})
	check(err)
	factory := otlpreceiver.NewFactory()
	configuration := factory.CreateDefaultConfig()
	check(confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": os.Args[1]},
		"http": map[string]any{"endpoint": os.Args[2]},
	}}).Unmarshal(configuration))
	ctx, host := context.Background(), componenttest.NewNopHost()
	settings := receivertest.NewNopSettings(factory.Type())
	ofTraces, err := factory.CreateTraces(ctx, settings, configuration, traces)
	check(err)
	ofMetrics, err := factory.CreateMetrics(ctx, settings, configuration, metrics)
	check(err)
	check(ofTraces.Start(ctx, host))
	check(ofMetrics.Start(ctx, host))
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	check(ofTraces.Shutdown(ctx))
	check(ofMetrics.Shutdown(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
