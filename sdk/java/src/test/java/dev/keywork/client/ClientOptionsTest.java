package dev.keywork.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

/** An option that breaks its limit is refused when the client is made; none is changed in silence. */
class ClientOptionsTest {
  private static String refusal(UnaryOperator<KeyworkClient.Builder> options) {
    return assertThrows(
        IllegalArgumentException.class, () -> options.apply(KeyworkClient.builder()).build()).getMessage();
  }

  @Test
  void anEndpointThatIsNoneIsRefused() {
    List<String> none = List.of(
        "127.0.0.1:50051", "localhost:50051", "ftp://host:1", "http://", "::", "", "http://a b", "http://under_score:1",
        "http://host:0", "http://host:65536", "http://host:1/path", "http://host:1?query", "http://me:pass@host:1");
    for (String endpoint : none) {
      String text = refusal(builder -> builder.endpoint(endpoint));
      assertTrue(text.startsWith("endpoint must be such as http://127.0.0.1:50051, not \"" + endpoint + '"'), text);
    }
  }

  @Test
  void anEndpointMayEndInASlashAndBeWrittenInCapitals() {
    for (String endpoint : List.of("http://host:1/", "HTTP://host", "https://[::1]:443", "http://10.0.0.1:50051")) {
      KeyworkClient.connect(endpoint).close();
    }
  }

  @Test
  void timesMustBePositive() {
    assertEquals("submitDeadline must be more than zero, but is 0s",
        refusal(builder -> builder.submitDeadline(Duration.ZERO)));
    assertEquals("callTimeout must be more than zero, but is -2s",
        refusal(builder -> builder.callTimeout(Duration.ofSeconds(-2))));
  }

  @Test
  void tlsWithoutAnEndpointThatUsesItIsRefused() throws IOException {
    var tls = TlsChannelCredentials.create();
    String text = refusal(builder -> builder.endpoint("http://host:1").tls(tls));
    assertTrue(text.contains("https://"), text);
  }

  @Test
  void aHeaderThatCannotBeSentIsRefused() {
    refusal(builder -> builder.metadata("x-name", "Zoë"));
    refusal(builder -> builder.metadata("x-name", "a\nb"));
    refusal(builder -> builder.metadata("x name", "a"));
  }

  @Test
  void whatIsMissingIsNamed() {
    assertEquals("endpoint", assertThrows(
        NullPointerException.class, () -> KeyworkClient.builder().endpoint(null)).getMessage());
    assertEquals("key", assertThrows(NullPointerException.class, () -> Submit.builder("q", null)).getMessage());
  }
}
