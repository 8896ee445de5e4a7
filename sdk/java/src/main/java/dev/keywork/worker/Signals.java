package dev.keywork.worker;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * SIGTERM and SIGINT, for every worker of this process that runs until one comes.
 *
 * <p>The only API that can tell a first signal from a second and leaves the exit code to the program is
 * {@code sun.misc.Signal}: it is reached by reflection, since compilers warn of it. Where a runtime does not have it,
 * or keeps the signals for itself ({@code -Xrs}), the signals end the process as they always do.
 */
final class Signals implements AutoCloseable {
  private static final String[] NAMES = {"TERM", "INT"};

  /** Everybody who listens; the lock of all that is static here. */
  private static final List<Signals> LISTENING = new ArrayList<>();

  /** What was there before, by signal. */
  private static final Map<Object, Object> BEFORE = new LinkedHashMap<>();

  private final Runnable onSignal;

  private Signals(Runnable onSignal) {
    this.onSignal = onSignal;
  }

  /** Listens to the signals from now on. */
  static Signals listen(Runnable onSignal) {
    Signals signals = new Signals(onSignal);
    synchronized (LISTENING) {
      if (LISTENING.isEmpty()) {
        install();
      }
      LISTENING.add(signals);
    }
    return signals;
  }

  /** Listens no more; the last to leave gives the signals back to whoever had them before. */
  @Override
  public void close() {
    synchronized (LISTENING) {
      LISTENING.remove(this);
      if (LISTENING.isEmpty()) {
        giveBack();
      }
    }
  }

  private static void onSignal() {
    List<Signals> told;
    synchronized (LISTENING) {
      told = List.copyOf(LISTENING);
    }
    told.forEach(one -> one.onSignal.run());
  }

  private static void install() {
    try {
      Object ours = handler();
      for (String name : NAMES) {
        Object signal = Class.forName("sun.misc.Signal").getConstructor(String.class).newInstance(name);
        BEFORE.put(signal, replace(signal, ours));
      }
    } catch (ReflectiveOperationException | SecurityException | LinkageError withoutSignals) {
      giveBack();
    }
  }

  private static void giveBack() {
    BEFORE.forEach((signal, previous) -> {
      try {
        replace(signal, previous);
      } catch (ReflectiveOperationException kept) {
        throw new IllegalStateException("failed to give a signal back", kept);
      }
    });
    BEFORE.clear();
  }

  private static Object handler() throws ReflectiveOperationException {
    InvocationHandler call = (proxy, method, arguments) -> switch (method.getName()) {
      case "handle" -> {
        onSignal();
        yield null;
      }
      case "hashCode" -> System.identityHashCode(proxy);
      case "equals" -> proxy == arguments[0];
      default -> "keywork worker";
    };
    Class<?> type = Class.forName("sun.misc.SignalHandler");
    return Proxy.newProxyInstance(Signals.class.getClassLoader(), new Class<?>[] {type}, call);
  }

  private static Object replace(Object signal, Object with) throws ReflectiveOperationException {
    Class<?> type = Class.forName("sun.misc.Signal");
    Method handle = type.getMethod("handle", type, Class.forName("sun.misc.SignalHandler"));
    return handle.invoke(null, signal, with);
  }
}
