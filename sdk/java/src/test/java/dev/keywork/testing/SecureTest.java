package dev.keywork.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.client.SubmitOutcome;
import dev.keywork.errors.KeyworkException;
import dev.keywork.support.Log;
import dev.keywork.worker.Worker;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.TlsServerCredentials;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Headers and TLS reach the server, from the client and from its workers. */
class SecureTest {
  private static final String PASSWORD = "password";
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  @TempDir
  private Path directory;

  @Test
  void headersAndTlsReachTheServer() throws Exception {
    KeyStore keys = selfSigned();
    String certificate = pem("CERTIFICATE", keys.getCertificate("server").getEncoded());
    String key = pem("PRIVATE KEY", keys.getKey("server", PASSWORD.toCharArray()).getEncoded());
    Log<String> methods = new Log<>();
    try (FakeServer fake = FakeServer.start()) {
      Server server = Grpc.newServerBuilderForPort(0, TlsServerCredentials.create(stream(certificate), stream(key)))
          .addService(new FakeWorkQueue(fake))
          .intercept(new OnlyWithToken(methods))
          .build()
          .start();
      String endpoint = "https://localhost:" + server.getPort();
      try (KeyworkClient client = trusting(certificate).endpoint(endpoint).metadata("authorization", "token").build();
          KeyworkClient stranger = trusting(certificate).endpoint(endpoint).build();
          KeyworkClient wary = KeyworkClient.builder()
              .endpoint(endpoint)
              .submitDeadline(Duration.ofMillis(500))
              .build()) {
        assertTrue(client.submit(Submit.of("q", "a", "")) instanceof SubmitOutcome.Created);
        try (Worker worker = Worker.builder(client, "q").task((context, job) -> {}).build()) {
          worker.start();
          fake.until("the job to complete", seen -> seen.completed().size() == 1);
        }
        methods.untilAny("the session", "keywork.v1.WorkQueue/Lease"::equals);
        Submit other = Submit.of("q", "b", "");
        assertEquals(
            Status.Code.UNAUTHENTICATED,
            assertThrows(KeyworkException.class, () -> stranger.submit(other)).code());
        KeyworkException error = assertThrows(KeyworkException.class, () -> wary.submit(other));
        assertEquals(Status.Code.UNAVAILABLE, error.code(), "the certificate is nobody's that it knows");
        assertTrue(error.getMessage().contains("certification path"), error.getMessage());
      } finally {
        server.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
      }
    }
  }

  @Test
  void aServerWithoutTlsIsCalledThat() {
    try (FakeServer plain = FakeServer.start();
        KeyworkClient client = KeyworkClient.builder()
            .endpoint(plain.endpoint().replace("http:", "https:"))
            .submitDeadline(Duration.ofSeconds(5))
            .build()) {
      KeyworkException error = assertThrows(KeyworkException.class, () -> client.submit(Submit.of("q", "a")));
      assertTrue(error.getMessage().contains("does not speak TLS"), error.getMessage());
    }
  }

  private static KeyworkClient.Builder trusting(String certificate) throws Exception {
    return KeyworkClient.builder()
        .tls(TlsChannelCredentials.newBuilder().trustManager(stream(certificate)).build());
  }

  private KeyStore selfSigned() throws Exception {
    Path file = directory.resolve("keys.p12");
    String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
    Process made = new ProcessBuilder(
        keytool, "-genkeypair", "-alias", "server", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext",
        "SAN=dns:localhost", "-storetype", "PKCS12", "-keystore", file.toString(), "-storepass", PASSWORD).start();
    assertEquals(0, made.waitFor());
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream input = Files.newInputStream(file)) {
      keys.load(input, PASSWORD.toCharArray());
    }
    return keys;
  }

  private static String pem(String what, byte[] bytes) {
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
    return "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n";
  }

  private static InputStream stream(String text) {
    return new ByteArrayInputStream(text.getBytes(StandardCharsets.US_ASCII));
  }

  private record OnlyWithToken(Log<String> methods) implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      if (!"token".equals(headers.get(AUTHORIZATION))) {
        call.close(Status.UNAUTHENTICATED, new Metadata());
        return new ServerCall.Listener<>() {};
      }
      methods.add(call.getMethodDescriptor().getFullMethodName());
      return next.startCall(call, headers);
    }
  }
}
