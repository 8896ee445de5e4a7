package keywork_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	keywork "github.com/keywork/keywork/sdk/go"
)

// encrypted puts TLS in front of a server; it gives the endpoint and the certificates to trust.
func encrypted(t *testing.T, endpoint string) (string, *x509.CertPool) {
	t.Helper()
	// Only its certificate is needed.
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	listener := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"},
	}))(t)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { pipe(outside, strings.TrimPrefix(endpoint, "http://")) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return "https://" + listener.Addr().String(), roots
}

// pipe passes on what comes, both ways, until either side ends.
func pipe(outside net.Conn, address string) {
	defer outside.Close()
	inside, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var inwards sync.WaitGroup
	inwards.Go(func() {
		_, _ = io.Copy(inside, outside)
		_ = inside.Close()
	})
	_, _ = io.Copy(outside, inside)
	_ = outside.Close()
	inwards.Wait()
}

func TestClientsAndWorkersSpeakTLS(t *testing.T) {
	scene := longLeases(t)
	endpoint, roots := encrypted(t, scene.server.Endpoint())
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{endpoint},
		TLS:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}))(t)
	t.Cleanup(func() { _ = client.Close() })
	must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"}))(t)
	scene.openGate()
	running := scene.run(keywork.NewWorker(client, scene.atTheGate, scene.options()))
	scene.untilCompleted("a")
	running.drain()
}

func TestACertificateThatIsNotTrustedIsAnOutage(t *testing.T) {
	scene := longLeases(t)
	endpoint, _ := encrypted(t, scene.server.Endpoint())
	_, err := impatient(t, endpoint).Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"})
	failed := errorOf(t, err)
	equal(t, "no side effects", failed.HasNoSideEffects(), true)
	if !strings.Contains(failed.Error(), "certificate") {
		t.Fatalf("%v", failed)
	}
}

func TestAServerThatSpeaksTLSIsToldFromOneThatDoesNot(t *testing.T) {
	scene := longLeases(t)
	encrypted, _ := encrypted(t, scene.server.Endpoint())
	wrong := map[string]string{
		strings.Replace(encrypted, "https", "http", 1):               "without TLS?",
		strings.Replace(scene.server.Endpoint(), "http", "https", 1): "does not look like a TLS handshake",
	}
	for endpoint, word := range wrong {
		_, err := impatient(t, endpoint).GetJob(t.Context(), "q", "a")
		text := errorOf(t, err).Error()
		if !strings.HasPrefix(text, "failed to connect to "+endpoint) || !strings.Contains(text, word) {
			t.Errorf("%s: %s", endpoint, text)
		}
	}
}
