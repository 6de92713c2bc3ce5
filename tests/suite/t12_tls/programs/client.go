// Arguments: the port, the version (1.2 or 1.3), the authority's certificate, the client's certificate and key, the body.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(response *http.Response, err error) []byte {
	check(err)
	body, err := io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	return body
}

func main() {
	port, version, authority, certificate, key, body := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	pair, err := tls.LoadX509KeyPair(certificate, key)
	check(err)
	text, err := os.ReadFile(authority)
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	number := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[version]
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs:            trusted,
		Certificates:       []tls.Certificate{pair},
		MinVersion:         number,
		MaxVersion:         number,
		ServerName:         "localhost",
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	url := "https://127.0.0.1:" + port
	fmt.Println(string(read(client.Get(url + "/tell"))))
	fmt.Printf("%x\n", sha256.Sum256(read(client.Get(url+"/large"))))
	fmt.Println(string(read(client.Post(url+"/echo", "text/plain", strings.NewReader(body)))))
	fmt.Println(string(read(client.Get(url + "/tell"))))
	transport.CloseIdleConnections()
	fmt.Println(string(read(client.Get(url + "/tell"))))
}
