package dev.keywork.errors;

/**
 * One field at fault.
 *
 * @param field the field's path in the request, such as {@code items[3].key}
 * @param description what is wrong with it, naming the limit
 */
public record FieldViolation(String field, String description) {}
