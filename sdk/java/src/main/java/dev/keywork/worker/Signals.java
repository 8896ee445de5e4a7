package dev.keywork.worker;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * SIGTERM and SIGINT. The only API that can tell a first signal from a second and leaves the exit code to the program
 * is {@code sun.misc.Signal}: it is reached by reflection, since compilers warn of it. Where a runtime does not have
 * it, or keeps the signals for itself ({@code -Xrs}), the signals end the process as they always do.
 */
final class Signals implements AutoCloseable {
  private static final String[] NAMES = {"TERM", "INT"};

  /** What was there before, by signal. */
  private final Map<Object, Object> before = new LinkedHashMap<>();

  private Method handle;

  private Signals() {}

  /** Listens to the signals from now on. */
  static Signals listen(Runnable onSignal) {
    Signals signals = new Signals();
    try {
      signals.install(onSignal);
    } catch (ReflectiveOperationException | SecurityException | LinkageError withoutSignals) {
      signals.close();
    }
    return signals;
  }

  private void install(Runnable onSignal) throws ReflectiveOperationException {
    Class<?> signal = Class.forName("sun.misc.Signal");
    Class<?> handler = Class.forName("sun.misc.SignalHandler");
    handle = signal.getMethod("handle", signal, handler);
    InvocationHandler call = (proxy, method, arguments) -> switch (method.getName()) {
      case "handle" -> {
        onSignal.run();
        yield null;
      }
      case "hashCode" -> System.identityHashCode(proxy);
      case "equals" -> proxy == arguments[0];
      default -> "keywork worker";
    };
    Object ours = Proxy.newProxyInstance(Signals.class.getClassLoader(), new Class<?>[] {handler}, call);
    for (String name : NAMES) {
      Object named = signal.getConstructor(String.class).newInstance(name);
      before.put(named, replace(named, ours));
    }
  }

  private Object replace(Object signal, Object with) throws ReflectiveOperationException {
    return handle.invoke(null, signal, with);
  }

  /** Leaves the signals to whoever had them before. */
  @Override
  public void close() {
    before.forEach((signal, previous) -> {
      try {
        replace(signal, previous);
      } catch (ReflectiveOperationException kept) {
        throw new IllegalStateException("failed to give a signal back", kept);
      }
    });
    before.clear();
  }
}
