/**
 * For tests of programs that use Keywork: a server in this process, and a way to run a handler without one.
 *
 * <p>{@link dev.keywork.testing.FakeServer} speaks the real contract over a real socket and keeps everything in memory:
 * keys are unique, leases have deadlines, dead letters are kept. It does what it is told wrong on purpose. It stores
 * nothing and promises nothing about speed.
 */
package dev.keywork.testing;
