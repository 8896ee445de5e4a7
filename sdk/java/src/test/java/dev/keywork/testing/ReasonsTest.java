package dev.keywork.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import io.grpc.Status;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Every reason of docs/errors.md is a constant here, and answers the two questions as it says there. */
class ReasonsTest {
  /**
   * A row of the table.
   *
   * @param reason its name
   * @param code the status
   * @param retry {@code yes}, {@code no}, or a time
   * @param sideEffects {@code none} or {@code unknown}
   */
  private record Row(String reason, Status.Code code, String retry, String sideEffects) {
    static Row of(String line) {
      String[] cells = line.split("\\|");
      return new Row(
          cells[1].strip().replace("`", ""), Status.Code.valueOf(cells[2].strip()), cells[3].strip(), cells[4].strip());
    }

    /** As a server sends it. */
    KeyworkException sent() {
      KeyworkException.Builder error = KeyworkException.builder(code)
          .reason(reason)
          .description("text")
          .noSideEffects(sideEffects.equals("none"));
      if (retry.endsWith("s") && !retry.equals("yes")) {
        error.retryAfter(Duration.parse("PT" + (retry.equals("500ms") ? "0.5s" : retry)));
      }
      return KeyworkException.from(Answers.status(error.build()));
    }
  }

  private static List<Row> table() throws IOException {
    return Files.readAllLines(Path.of("..", "..", "docs", "errors.md")).stream()
        .filter(line -> line.matches("\\| `[A-Z_]+` \\|.*"))
        .map(Row::of)
        .toList();
  }

  @Test
  void everyReasonIsAConstant() throws IOException {
    Set<String> constants = Arrays.stream(Reasons.class.getFields())
        .filter(field -> Modifier.isStatic(field.getModifiers()))
        .map(Field::getName)
        .collect(Collectors.toCollection(TreeSet::new));
    Set<String> documented = table().stream().map(Row::reason).collect(Collectors.toCollection(TreeSet::new));
    assertTrue(documented.size() > 15, documented.toString());
    assertEquals(documented, constants);
  }

  @Test
  void everyReasonAnswersTheTwoQuestions() throws IOException {
    for (Row row : table()) {
      KeyworkException error = row.sent();
      assertEquals(row.reason, error.reason());
      assertEquals(row.code, error.code());
      assertEquals(!row.retry.equals("no"), error.isRetryable(), row.reason);
      assertEquals(row.sideEffects.equals("none"), error.hasNoSideEffects(), row.reason);
    }
  }
}
