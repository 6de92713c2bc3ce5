// Reads and changes the API at the URL that is the argument with F5's own Go client, as it is in Debian's
// golang-github-nginxinc-nginx-plus-go-client-dev. The server is that of tests/tools/plus-api. A line is printed for each
// check; it fails if one does.
package main

import (
	"fmt"
	"net/http"
	"os"
	"reflect"
	"sort"
	"time"

	"github.com/nginxinc/nginx-plus-go-client/client"
)

var failed bool

func tell(name string, err error) {
	if err != nil {
		failed = true
		fmt.Printf("FAILED %s: %v\n", name, err)
		return
	}
	fmt.Println("ok     " + name)
}

func unless(holds bool, format string, args ...interface{}) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func number(n int) *int { return &n }

func yes(b bool) *bool { return &b }

func main() {
	c, err := client.NewNginxClient(&http.Client{Timeout: 10 * time.Second}, os.Args[1])
	if err != nil {
		tell("the client finds its version", err)
		os.Exit(1)
	}
	readAll(c)
	changeHTTP(c)
	changeStream(c)
	changePairs(c)
	if failed {
		os.Exit(1)
	}
}

func readAll(c *client.NginxClient) {
	stats, err := c.GetStats()
	if err == nil {
		err = unless(stats.ServerZones["main"].Requests > 0 && stats.LocationZones["app"].Responses.Responses2xx > 0 &&
			len(stats.Upstreams["application"].Peers) == 2 && stats.StreamServerZones["sessions"].Connections > 0 &&
			len(stats.StreamUpstreams["sessions"].Peers) == 1 && stats.Caches["pages"].Hit.Responses > 0 &&
			stats.HTTPLimitRequests["requests"].Passed > 0 && stats.HTTPLimitConnections["connections"].Passed > 0 &&
			stats.StreamLimitConnections["sconnections"].Passed > 0 && stats.NginxInfo.Generation == 1 &&
			stats.HTTPRequests.Total > 0 && stats.Connections.Accepted > 0, "%+v", *stats)
	}
	tell("GetStats", err)
	if err == nil {
		peer := stats.Upstreams["application"].Peers[0]
		tell("a peer has been used", unless(peer.State == "up" && peer.Requests > 0 && peer.Responses.Responses2xx > 0 &&
			peer.Selected != "" && peer.Sent > 0 && peer.Received > 0 && peer.MaxConns == 50, "%+v", peer))
		_, known := stats.Resolvers["names"]
		tell("the resolver is there", unless(known, "%+v", stats.Resolvers))
	}
	tell("CheckIfUpstreamExists", c.CheckIfUpstreamExists("application"))
	tell("CheckIfUpstreamExists of another", unless(c.CheckIfUpstreamExists("nothing") != nil, "it says so"))
	tell("CheckIfStreamUpstreamExists", c.CheckIfStreamUpstreamExists("sessions"))
}

func names(all []client.UpstreamServer) []string {
	list := []string{}
	for _, one := range all {
		list = append(list, one.Server)
	}
	sort.Strings(list)
	return list
}

func changeHTTP(c *client.NginxClient) {
	const group = "changed"
	first := client.UpstreamServer{Server: "127.0.0.1:9001", MaxConns: number(7), Weight: number(3), Route: "a"}
	tell("AddHTTPServer", c.AddHTTPServer(group, first))
	tell("AddHTTPServer again", unless(c.AddHTTPServer(group, first) != nil, "it is added twice"))
	all, err := c.GetHTTPServers(group)
	if err == nil {
		err = unless(len(all) == 1 && all[0].Server == first.Server && *all[0].MaxConns == 7 && *all[0].Weight == 3 &&
			all[0].Route == "a" && *all[0].MaxFails == 1 && all[0].FailTimeout == "10s" && all[0].ID > 0, "%+v", all)
	}
	tell("GetHTTPServers", err)
	if err != nil {
		return
	}
	changed := all[0]
	changed.Down, changed.MaxFails, changed.FailTimeout, changed.SlowStart = yes(true), number(0), "5s", "30s"
	tell("UpdateHTTPServer", c.UpdateHTTPServer(group, changed))
	all, err = c.GetHTTPServers(group)
	if err == nil {
		err = unless(len(all) == 1 && reflect.DeepEqual(all[0], changed), "%+v instead of %+v", all, changed)
	}
	tell("all that was changed is told", err)
	// As ingress controllers do: the whole list, of which the client finds out what is new, changed and gone.
	wanted := []client.UpstreamServer{
		{Server: "127.0.0.1:9001", Weight: number(2)}, {Server: "127.0.0.1:9002"}, {Server: "127.0.0.1:9003"},
	}
	added, deleted, updated, err := c.UpdateHTTPServers(group, wanted)
	if err == nil {
		err = unless(len(added) == 2 && len(deleted) == 0 && len(updated) == 1, "%v %v %v", added, deleted, updated)
	}
	tell("UpdateHTTPServers", err)
	added, deleted, updated, err = c.UpdateHTTPServers(group, wanted[1:])
	if err == nil {
		err = unless(len(added) == 0 && len(deleted) == 1 && len(updated) == 0, "%v %v %v", added, deleted, updated)
	}
	tell("UpdateHTTPServers with one less", err)
	tell("DeleteHTTPServer", c.DeleteHTTPServer(group, "127.0.0.1:9002"))
	tell("DeleteHTTPServer again", unless(c.DeleteHTTPServer(group, "127.0.0.1:9002") != nil, "it is deleted twice"))
	all, err = c.GetHTTPServers(group)
	if err == nil {
		err = unless(reflect.DeepEqual(names(all), []string{"127.0.0.1:9003"}), "%v", names(all))
	}
	tell("one is left", err)
	_, _, _, err = c.UpdateHTTPServers(group, nil)
	tell("UpdateHTTPServers with none", err)
}

func changeStream(c *client.NginxClient) {
	const group = "changed"
	server := client.StreamUpstreamServer{Server: "127.0.0.1:9001", MaxConns: number(7)}
	tell("AddStreamServer", c.AddStreamServer(group, server))
	all, err := c.GetStreamServers(group)
	if err == nil {
		err = unless(len(all) == 1 && *all[0].MaxConns == 7 && *all[0].Weight == 1, "%+v", all)
	}
	tell("GetStreamServers", err)
	if err != nil {
		return
	}
	changed := all[0]
	changed.Weight, changed.Down = number(4), yes(true)
	tell("UpdateStreamServer", c.UpdateStreamServer(group, changed))
	added, deleted, updated, err := c.UpdateStreamServers(group, []client.StreamUpstreamServer{{Server: "127.0.0.1:9002"}})
	if err == nil {
		err = unless(len(added) == 1 && len(deleted) == 1 && len(updated) == 0, "%v %v %v", added, deleted, updated)
	}
	tell("UpdateStreamServers", err)
	tell("DeleteStreamServer", c.DeleteStreamServer(group, "127.0.0.1:9002"))
}

// pairs are the calls for the pairs of a protocol, which are in a zone.
type pairs struct {
	zone        string
	add, modify func(zone, key, value string) error
	get         func(zone string) (client.KeyValPairs, error)
	all         func() (client.KeyValPairsByZone, error)
	remove      func(zone, key string) error
	clear       func(zone string) error
}

func changePairs(c *client.NginxClient) {
	kinds := map[string]pairs{
		"http": {"pairs", c.AddKeyValPair, c.ModifyKeyValPair, c.GetKeyValPairs, c.GetAllKeyValPairs, c.DeleteKeyValuePair,
			c.DeleteKeyValPairs},
		"stream": {"spairs", c.AddStreamKeyValPair, c.ModifyStreamKeyValPair, c.GetStreamKeyValPairs, c.GetAllStreamKeyValPairs,
			c.DeleteStreamKeyValuePair, c.DeleteStreamKeyValPairs},
	}
	for kind, of := range kinds {
		is := func(expected client.KeyValPairs) error {
			found, err := of.get(of.zone)
			if err != nil {
				return err
			}
			return unless(reflect.DeepEqual(found, expected), "%v", found)
		}
		tell(kind+": a pair is added", of.add(of.zone, "one", "1"))
		tell(kind+": and told", is(client.KeyValPairs{"one": "1"}))
		tell(kind+": a pair is not added twice", unless(of.add(of.zone, "one", "2") != nil, "it is"))
		tell(kind+": a pair is modified", of.modify(of.zone, "one", "3"))
		tell(kind+": another is added", of.add(of.zone, "two", "2"))
		all, err := of.all()
		if err == nil {
			expected := client.KeyValPairsByZone{of.zone: {"one": "3", "two": "2"}}
			err = unless(reflect.DeepEqual(all, expected), "%v", all)
		}
		tell(kind+": all zones are told", err)
		tell(kind+": a pair is removed", of.remove(of.zone, "one"))
		tell(kind+": and the other one is left", is(client.KeyValPairs{"two": "2"}))
		tell(kind+": all are removed", of.clear(of.zone))
		tell(kind+": none is left", is(client.KeyValPairs{}))
	}
}
