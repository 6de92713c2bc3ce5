// Has Telegraf's plugin nginx_plus_api ask the API at the URL that is the argument, and prints what it gathers: a line with the
// name, the tags and the fields of each measurement, as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs/nginx_plus_api"
)

// printer prints what it is given. A plugin calls nothing else of an accumulator.
type printer struct {
	telegraf.Accumulator
	failed bool
	lines  chan string
}

func (p *printer) AddFields(name string, fields map[string]interface{}, tags map[string]string, _ ...time.Time) {
	line, err := json.Marshal(map[string]interface{}{"name": name, "tags": tags, "fields": fields})
	if err != nil {
		p.AddError(err)
		return
	}
	p.lines <- string(line)
}

func (p *printer) AddError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		p.failed = true
	}
}

func main() {
	lines := make(chan string)
	p := &printer{lines: lines}
	plugin := &nginx_plus_api.NginxPlusAPI{Urls: []string{os.Args[1]}, APIVersion: 9}
	go func() {
		p.AddError(plugin.Gather(p))
		close(lines)
	}()
	for line := range lines {
		fmt.Println(line)
	}
	if p.failed {
		os.Exit(1)
	}
}
