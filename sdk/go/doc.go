// Package keywork is Keywork's client and worker for Go.
//
// Keywork is a work queue in which a key has at most one outstanding job. A [Client] offers jobs and looks after
// queues, a [Worker] runs them, package keyworktest stands in for a server. What the hand-written types leave out is
// reachable by [Client.Raw] and package keyworkv1.
package keywork

// Version is this module's version, as servers are told it.
const Version = "0.1.0"
