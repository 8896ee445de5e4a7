package dev.keywork.client;

/**
 * How one redrive ended.
 *
 * @param deadId the dead letter
 * @param result created: the job runs again and the dead letter is gone; already outstanding: the key is busy and the
 *     dead letter stays
 */
public record Redriven(long deadId, SubmitResult result) {}
