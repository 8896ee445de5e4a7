package dev.keywork.client;

import dev.keywork.internal.Wire;
import java.time.Instant;
import java.util.Optional;

/**
 * A recurring submit.
 *
 * @param name the name: {@code [a-z0-9][a-z0-9_-]{0,63}}
 * @param expression {@code @every 30s}, or six cron fields: second, minute, hour, day of month, month, day of week
 * @param timeZone IANA time zone of a cron expression; empty: UTC
 * @param submit what to submit each time, without a request id
 * @param nextAt when it fires next, as the server says
 */
public record Schedule(String name, String expression, String timeZone, Submit submit, Optional<Instant> nextAt) {
  /**
   * A schedule in UTC.
   *
   * @param name the name
   * @param expression when
   * @param submit what to submit each time
   */
  public Schedule(String name, String expression, Submit submit) {
    this(name, expression, "", submit, Optional.empty());
  }

  static Schedule read(dev.keywork.internal.v1.Schedule wire) {
    Instant nextAt = Wire.time(wire.hasNextAt(), wire.getNextAt());
    Submit submit = Submit.of(wire.getSubmit());
    return new Schedule(
        wire.getName(), wire.getExpression(), wire.getTimeZone(), submit, Optional.ofNullable(nextAt));
  }

  dev.keywork.internal.v1.Schedule wire() {
    return dev.keywork.internal.v1.Schedule.newBuilder()
        .setName(name)
        .setExpression(expression)
        .setTimeZone(timeZone)
        .setSubmit(submit.checked())
        .build();
  }
}
