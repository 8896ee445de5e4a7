package dev.keywork.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The members of a command. */
record Args(JsonObject json) {
  String text(String name) {
    return text(name, "");
  }

  String text(String name, String usual) {
    JsonElement found = json.get(name);
    return found == null || found.isJsonNull() ? usual : found.getAsString();
  }

  Optional<Long> number(String name) {
    JsonElement found = json.get(name);
    return found == null || found.isJsonNull() ? Optional.empty() : Optional.of(found.getAsLong());
  }

  Optional<Duration> millis(String name) {
    return number(name).map(Duration::ofMillis);
  }

  boolean flag(String name) {
    JsonElement found = json.get(name);
    return found != null && !found.isJsonNull() && found.getAsBoolean();
  }

  List<String> texts(String name) {
    List<String> texts = new ArrayList<>();
    list(name).forEach(element -> texts.add(element.getAsString()));
    return texts;
  }

  JsonArray list(String name) {
    JsonElement found = json.get(name);
    return found == null || found.isJsonNull() ? new JsonArray() : found.getAsJsonArray();
  }

  Map<String, String> map(String name) {
    Map<String, String> map = new LinkedHashMap<>();
    object(name).json.entrySet().forEach(entry -> map.put(entry.getKey(), entry.getValue().getAsString()));
    return map;
  }

  Args object(String name) {
    JsonElement found = json.get(name);
    return new Args(found == null || found.isJsonNull() ? new JsonObject() : found.getAsJsonObject());
  }
}
