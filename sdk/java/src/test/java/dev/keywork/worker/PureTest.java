package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.google.protobuf.ByteString;
import dev.keywork.internal.Backoff;
import dev.keywork.internal.Chain;
import dev.keywork.internal.LeaseContext;
import dev.keywork.internal.Ticks;
import dev.keywork.job.Job;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Fences, heartbeats and backoff, with time as an argument. */
class PureTest {
  private static final long SECOND = Duration.ofSeconds(1).toNanos();
  private static final Terms TERMS = new Terms(15 * SECOND, Ticks.NEVER);

  /** A table with one waiting lease whose fence is ten seconds after the start. */
  private final Leases leases = new Leases();

  private final Held held =
      new Held(ByteString.copyFromUtf8("token"), 0, Job.builder("q", "k").build(), 10 * SECOND);

  PureTest() {
    leases.add(held);
  }

  @Test
  void aFenceCountsFromWhenTheQuestionWasSent() {
    assertEquals(14 * SECOND, TERMS.fence(0, 15 * SECOND));
    assertEquals(3 * SECOND, TERMS.fence(3 * SECOND, SECOND / 2), "never before the question");
  }

  @Test
  void aFenceOnlyMovesForward() {
    leases.extend(held, TERMS, 0, 5 * SECOND);
    assertTrue(leases.fenced(List.of(TERMS), Ticks.NEVER, 9 * SECOND).isEmpty());
    leases.extend(held, TERMS, 5 * SECOND, 15 * SECOND);
    assertTrue(leases.fenced(List.of(TERMS), Ticks.NEVER, 18 * SECOND).isEmpty());
    assertEquals(List.of(held), leases.fenced(List.of(TERMS), Ticks.NEVER, 19 * SECOND));
  }

  @Test
  void aDisconnectGraceBringsTheFenceNearerOnlyWhileTheStreamIsBroken() {
    List<Terms> terms = List.of(new Terms(15 * SECOND, SECOND));
    assertTrue(leases.fenced(terms, Ticks.NEVER, 4 * SECOND).isEmpty());
    assertEquals(List.of(held), leases.fenced(terms, 2 * SECOND, 4 * SECOND));
    assertEquals(3 * SECOND, leases.nextFence(terms, 2 * SECOND));
  }

  @Test
  void aSettlementUnderWayIsNotFencedAndNotLost() {
    assertTrue(leases.giveBack(held));
    assertTrue(leases.fenced(List.of(TERMS), Ticks.NEVER, 60 * SECOND).isEmpty());
    assertFalse(leases.lose(held, CancelReason.LEASE_LOST, 0));
    assertTrue(leases.settled(held));
    assertTrue(leases.isEmpty());
  }

  @Test
  void aHandlerDoesNotBeginWhenItsLeaseIsOver() {
    Chain chain = new Chain(List.of(), (context, job) -> fail("it began"));
    LeaseContext over = new LeaseContext(Ticks.now());
    assertEquals(Chain.failed("the lease was over before the handler began"), chain.run(over, held.job));
    LeaseContext cancelled = new LeaseContext(Ticks.after(Ticks.now(), Duration.ofMinutes(1)));
    cancelled.cancel(CancelReason.JOB_CANCELLED);
    assertTrue(chain.run(cancelled, held.job).byChance());
  }

  @Test
  void anAnswerAnswersAllEarlierHeartbeatsAndNoLaterOne() {
    Beats beats = new Beats(0);
    for (int second = 1; second <= 3; second++) {
      beats.sent(List.of(), second * SECOND);
    }
    assertEquals(SECOND, beats.answered(2).sent());
    assertEquals(2 * SECOND, beats.answered(2).sent());
    assertNull(beats.answered(2));
    assertEquals(2 * SECOND, beats.basis());
  }

  @Test
  void anAnswerOfAnEarlierSessionProvesNothing() {
    Beats beats = new Beats(0);
    long sequence = beats.sent(List.of(), 0);
    beats.opened(9 * SECOND);
    assertNull(beats.answered(sequence));
    assertEquals(9 * SECOND, beats.basis());
  }

  @Test
  void waitsGrowFromShortToLongAndStartAgain() {
    Backoff backoff = new Backoff();
    for (int tries = 0; tries < 100; tries++) {
      Duration wait = backoff.next();
      assertTrue(wait.compareTo(Backoff.SHORTEST) >= 0 && wait.compareTo(Backoff.LONGEST) <= 0, wait.toString());
    }
    backoff.reset();
    assertTrue(backoff.next().compareTo(Backoff.SHORTEST.multipliedBy(2)) <= 0);
  }

  @Test
  void theVersionThatServersAreToldIsThatOfTheArtifact() throws IOException {
    String pom = Files.readString(Path.of("pom.xml"));
    String own = pom.substring(pom.indexOf("<artifactId>keywork-sdk</artifactId>"));
    assertEquals(Version.TEXT, own.substring(own.indexOf("<version>") + 9, own.indexOf("</version>")));
  }
}
