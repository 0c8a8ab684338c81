//! Every knob, once. Setters, property names, defaults, limits, `docs/configuration.md` and the validation of single
//! values all come from this table; how knobs depend on each other is in `fit.rs`.

use super::knob::{choose, knobs, names, Knob};
use super::overrides::Overrides;
use super::settings::{Acks, Idempotence, RecoveryStrategy, RetryAmbiguous};
use super::value::{Limits, Value, JAVA_MAX};
use super::Config;
use crate::error::ConfigError;
use crate::protocol::compression::Codec;
use std::time::Duration;

const INT: i64 = i32::MAX as i64;
const GIB: i64 = 1 << 30;

knobs! {
"The cluster": {
    bootstrap_servers: String, by "new(servers)";
    properties: ["bootstrap.servers"], default: "", limits: Limits::TEXT;
    "Where to ask for the cluster first: `host:port`, separated by commas; `[address]:port` for IPv6. Without a port: 9092. \
     Not more than a way in: the brokers themselves say where they are. Name two or three, so that one may be down. All \
     addresses a name resolves to are tried.";
    because "there is no cluster that everybody has; it must be set.";

    client_id: String, fn(impl Into<String>);
    properties: ["client.id"], default: "steadfast", limits: Limits::TEXT;
    "The name under which brokers log this client and count its quota.";
    because "a name that can be found in the brokers' logs is better than none.";

    client_rack: Option<String>, fn(impl Into<Option<String>>);
    properties: ["client.rack"], default: "", limits: Limits::TEXT.none(&[""]);
    "Where this client runs (an availability zone, say), in the words of the brokers' `broker.rack`. Used only with \
     `partitioner.rack.aware`.";
    because "most clusters have no racks.";

    allow_auto_create_topics: bool, fn(bool);
    properties: ["allow.auto.create.topics"], default: "true", limits: Limits::TEXT;
    "Whether asking for a topic that does not exist may create it; the brokers' `auto.create.topics.enable` must allow it too.";
    because "other producers ask this way, and the cluster's administrator has the last word.";
}
"Promises": {
    acks: Acks, fn(Acks);
    properties: ["acks"], default: "all", limits: Limits::TEXT;
    "Who must have a message before it counts as delivered: all in-sync replicas, the leader alone (`1`), or nobody \
     (`0`). With `0` delivered means written to the socket: there is no offset, a refusal is never learnt of, and \
     what is lost on the way is lost in silence. With `1` a message is lost when its leader dies before the others have it.";
    because "nothing acknowledged is lost as long as one in-sync replica lives.";

    enable_idempotence: Idempotence, fn(Idempotence);
    properties: ["enable.idempotence"], default: "preferred", limits: Limits::TEXT;
    "Whether brokers sort out duplicates and gaps by a producer id and sequence numbers. `preferred`: on where the settings \
     and the cluster allow it (acks=all, retries, a broker of 0.11 or later, no authorization missing), otherwise off: in silence \
     where the settings are the reason, with one warning where the cluster is. `required`, which is what `true` means: on, or \
     it is an error. Off: at least once, and one request in flight for each partition, so that the order holds all the same.";
    because "no duplicates, order and five requests in flight at once, at no cost worth mentioning.";

    batch_retries_limit: Option<u32>, fn(impl Into<Option<u32>>);
    properties: ["batch_retries_limit", "retries"], default: "5", limits: Limits::count(0, INT).none(&["none", JAVA_MAX, "-1"]);
    "How often a batch is sent again after an attempt that reached a broker and was refused, or not answered: attempts = 1 + \
     this. 0: never again. `None`: no limit. Not counted: waiting for a leader, a topic, a connection or a throttle, \
     splitting a batch that is too large, resending the good messages of a batch whose bad ones the broker named. It or \
     `delivery.timeout.ms` ends a message's life, whichever comes first; without a limit on both, a message for a \
     cluster that stays away waits for ever.";
    because "with its backoff it takes 36 s to use up 5 retries: longer than an election or the restart of a broker.";

    batch_retry_backoff: Duration, fn(Duration);
    properties: ["batch_retry_backoff_ms", "retry.backoff.ms"], default: "300", limits: Limits::millis_to(0, INT);
    "The wait before a batch's first retry; three times as long before each further one, up to `retry.backoff.max.ms`, \
     a little longer by chance. A wait ends early when the view of the cluster shows a new leader.";
    because "0.3, 0.9, 2.7, 8.1, 24.3 s outlast a broker's session timeout (9 s, 18 s with ZooKeeper) and a restart of 20 s.";

    batch_retry_backoff_max: Duration, fn(Duration);
    properties: ["retry.backoff.max.ms"], default: "30000", limits: Limits::millis_to(0, INT);
    "The longest wait between two attempts of a batch.";
    because "lets the fifth retry wait its 24 s.";

    delivery_timeout: Option<Duration>, fn(impl Into<Option<Duration>>);
    properties: ["delivery.timeout.ms"], default: "120000", limits: Limits::millis_to(1, INT).none(&["none", JAVA_MAX, "-1"]);
    "The longest time from accepting a message to its verdict, whatever it waits for. What was sent and not \
     answered by then is dropped with the word that it may be in the log. Counted from acceptance, not from the message's \
     timestamp. `None`: no limit; see `batch_retries_limit`, one of the two should be there.";
    because "as in Java's producer: two minutes outlast all but real outages.";

    request_timeout: Duration, fn(Duration);
    properties: ["request.timeout.ms"], default: "30000", limits: Limits::millis_to(10, INT);
    "How long a broker may take to answer a request. After that its connection is closed and what was in it counts as \
     unanswered. Brokers are told to wait for the replicas a little less than this, so that their answer still arrives.";
    because "as in Java's producer; a broker that waits for its replicas gives up just before.";

    retry_ambiguous: RetryAmbiguous, fn(RetryAmbiguous);
    properties: ["retry_ambiguous"], default: "auto", limits: Limits::TEXT;
    "What to do with an attempt that may have been written, because nobody answered it. `auto`: send it again; with \
     idempotence that makes no duplicate (where it would, because the producer's epoch had to change, the message is dropped as \
     possibly written), without it that is at least once. `always`: send it again in that case too. `never`: without the protection of idempotence, \
     drop it as possibly written.";
    because "a duplicate without idempotence is what one expects, one with idempotence is not.";

    unknown_topic_grace: Duration, fn(Duration);
    properties: ["unknown_topic_grace_ms"], default: "30000", limits: Limits::millis(0);
    "How long a message waits for a topic or partition that the cluster says it does not have, before it is dropped.";
    because "news of a new topic takes seconds to reach all brokers; a name that is wrong should not take minutes to be told.";

    class_overrides: Overrides, by "override_class(ErrorCode, Class)";
    properties: ["class.override.<CODE>"], default: "", limits: Limits::TEXT;
    "What to do about a broker's error code, in place of what `docs/classification.md` says: `<CODE>` is its name or \
     number, as in `class.override.POLICY_VIOLATION=retry-after-backoff`.";
    because "the table is right for Kafka; some services that speak its protocol use codes their own way.";
}
"Batches and memory": {
    linger: Duration, fn(Duration);
    properties: ["linger.ms"], default: "5", limits: Limits::millis(0);
    "How long a batch waits for more messages before it is sent; a full one goes at once. 0 sends as soon as a request may go.";
    because "as in Java's producer since 4.0: larger batches save more time at the brokers than the wait costs.";

    batch_bytes: usize, fn(usize);
    properties: ["batch.size"], default: "1000000", limits: Limits::bytes(0, GIB);
    "The size at which a batch is full: with its header, before compression. A larger message has a batch of its own. 0: each \
     message alone. It is also how much the partitioner gives a partition before it turns to another one. Memory is taken as a batch \
     grows, not in advance.";
    because "what waits travels together, and it stays below the 1,048,588 bytes of a topic's default `max.message.bytes` even \
     when compression makes it a little larger. Java's 16,384, chosen where a batch's memory is taken in advance, means sixty times the batches.";

    max_request_bytes: usize, fn(usize);
    properties: ["max.request.size"], default: "8388608", limits: Limits::bytes(1024, GIB);
    "The largest request, over all partitions in it, before compression; and so also the largest message, since a request carries at least one: a larger \
     one is refused by `send`. The topic's `max.message.bytes` has its own say, message by message, when it gets there. \
     Brokers close the connection on requests above their `socket.request.max.bytes`, 100 MiB.";
    because "both limits have this name in Java, where it is 1 MiB. 8 MiB let several full batches for one broker share a request, and a topic that \
     takes larger messages needs no second setting here.";

    buffer_bytes: u64, fn(u64);
    properties: ["buffer.memory"], default: "33554432", limits: Limits::bytes(1024, 1 << 40);
    "How much may be accepted and without a verdict: encoded bytes and a fixed charge for each message, wherever they wait. \
     When it is full, callers wait or are refused.";
    because "as in Java's producer. More rides out longer outages and costs CPU at full speed, because what waits leaves the caches.";

    max_block: Duration, fn(Duration);
    properties: ["max.block.ms"], default: "60000", limits: Limits::millis(0);
    "How long a call may wait for room in the buffer; it waits for nothing else. 0: refused at once, as the `try_` calls are.";
    because "as in Java's producer.";

    compression: Codec, fn(Codec);
    properties: ["compression.type"], default: "none", limits: Limits::TEXT;
    "How batches are compressed. Each codec is a cargo feature: `gzip`, `snappy` and `lz4` are on by default and pure Rust, `zstd` needs a C compiler.";
    because "it depends on the messages; lz4 is the one to try first.";

    compression_gzip_level: Option<i32>, fn(impl Into<Option<i32>>);
    properties: ["compression.gzip.level"], default: "-1", limits: Limits::count(1, 9).none(&["-1"]);
    "1 is fastest, 9 smallest; `None` is the codec's own default, 6.";
    because "as in Java's producer.";

    compression_lz4_level: i32, fn(i32);
    properties: ["compression.lz4.level"], default: "9", limits: Limits::count(1, 17);
    "Accepted and without effect: the lz4 encoder in pure Rust has one level, the fast one.";
    because "as in Java's producer.";

    compression_zstd_level: i32, fn(i32);
    properties: ["compression.zstd.level"], default: "3", limits: Limits::count(-131_072, 22);
    "22 is smallest, negative ones are fastest.";
    because "as in Java's producer: zstd's own default.";

    max_in_flight: usize, fn(usize);
    properties: ["max.in.flight.requests.per.connection"], default: "5", limits: Limits::count(1, 1_000_000);
    "How many produce requests may be on their way to one broker. A partition has at most five of them with idempotence \
     (brokers remember five batches), and one without, so order holds whatever the number.";
    because "as in Java's producer: what a broker remembers.";
}
"Partitions": {
    partitioner_ignore_keys: bool, fn(bool);
    properties: ["partitioner.ignore.keys"], default: "false", limits: Limits::TEXT;
    "Whether messages with a key are spread like those without. By default the key chooses the partition, as in Java's \
     producer: murmur2 over its bytes, modulo the number of partitions.";
    because "messages of one key belong in order, and so in one partition.";

    partitioner_adaptive: bool, fn(bool);
    properties: ["partitioner.adaptive.partitioning.enable"], default: "true", limits: Limits::TEXT;
    "Whether messages without a key go less often to partitions in front of which batches queue up.";
    because "a slow broker then gets what it can take instead of filling the buffer.";

    partitioner_availability_timeout: Option<Duration>, fn(impl Into<Option<Duration>>);
    properties: ["partitioner.availability.timeout.ms"], default: "0", limits: Limits::millis(1).none(&["0"]);
    "After how long without taking anything that waits for it a broker's partitions get no new messages without a key, while \
     others can. Partitions without a leader get none anyway.";
    because "as in Java's producer: queues alone tell slow from fast.";

    partitioner_rack_aware: bool, fn(bool);
    properties: ["partitioner.rack.aware"], default: "false", limits: Limits::TEXT;
    "Whether messages without a key go only to partitions whose leader is in `client.rack`, as long as there are any.";
    because "as in Java's producer: it saves traffic between zones and loads partitions unevenly.";
}
"Metadata": {
    metadata_max_age: Duration, fn(Duration);
    properties: ["metadata.max.age.ms"], default: "300000", limits: Limits::millis(100);
    "After how long the view of the cluster is refreshed even if nothing asked for it. Errors refresh it at once.";
    because "as in Java's producer: it finds new brokers and partitions in time, and costs nothing.";

    metadata_max_idle: Duration, fn(Duration);
    properties: ["metadata.max.idle.ms"], default: "300000", limits: Limits::millis(5000);
    "After how long without a message a topic is forgotten, and no longer asked for.";
    because "as in Java's producer.";

    metadata_recovery_strategy: RecoveryStrategy, fn(RecoveryStrategy);
    properties: ["metadata.recovery.strategy"], default: "rebootstrap", limits: Limits::TEXT;
    "What to do when none of the known brokers answers for `metadata.recovery.rebootstrap.trigger.ms`, or a broker asks for it: go \
     back to `bootstrap.servers` and resolve them anew, or stay.";
    because "brokers that all moved to new addresses are found again without a restart.";

    metadata_recovery_trigger: Duration, fn(Duration);
    properties: ["metadata.recovery.rebootstrap.trigger.ms"], default: "300000", limits: Limits::millis(0);
    "How long no refresh of the view may succeed before `metadata.recovery.strategy` sets in.";
    because "as in Java's producer.";
}
"Connections": {
    connection_setup_timeout: Duration, fn(Duration);
    properties: ["socket.connection.setup.timeout.ms"], default: "10000", limits: Limits::millis(1);
    "How long a connection may take to stand; doubled with each failure of a broker in a row, up to `socket.connection.setup.timeout.max.ms`.";
    because "as in Java's producer.";

    connection_setup_timeout_max: Duration, fn(Duration);
    properties: ["socket.connection.setup.timeout.max.ms"], default: "30000", limits: Limits::millis(1);
    "The longest time a connection may take to stand.";
    because "as in Java's producer.";

    reconnect_backoff: Duration, fn(Duration);
    properties: ["reconnect.backoff.ms"], default: "50", limits: Limits::millis(1);
    "The wait before connecting again to a broker that was lost or refused; doubled with each failure in a row, up to `reconnect.backoff.max.ms`.";
    because "as in Java's producer.";

    reconnect_backoff_max: Duration, fn(Duration);
    properties: ["reconnect.backoff.max.ms"], default: "1000", limits: Limits::millis(1);
    "The longest wait before connecting again.";
    because "as in Java's producer: a broker that is back is found within a second.";

    connections_max_idle: Option<Duration>, fn(impl Into<Option<Duration>>);
    properties: ["connections.max.idle.ms"], default: "540000", limits: Limits::millis(1).none(&["none", "-1"]);
    "After how long without a request a connection is closed; it is opened again when it is needed. `None`: never.";
    because "a minute before brokers (10 minutes) do the same, so that no message meets a connection that is just being closed.";

    send_buffer_bytes: Option<usize>, fn(impl Into<Option<usize>>);
    properties: ["send.buffer.bytes"], default: "-1", limits: Limits::bytes(1, INT).none(&["-1"]);
    "The socket's send buffer (SO_SNDBUF); `None` is the system's choice.";
    because "the system lets it grow with the connection; a fixed size switches that off.";

    receive_buffer_bytes: Option<usize>, fn(impl Into<Option<usize>>);
    properties: ["receive.buffer.bytes"], default: "-1", limits: Limits::bytes(1, INT).none(&["-1"]);
    "The socket's receive buffer (SO_RCVBUF); `None` is the system's choice.";
    because "the system lets it grow with the connection; a fixed size switches that off.";
}
"Threads": {
    wait_spin: Duration, fn(Duration);
    properties: ["wait_spin_us"], default: "0", limits: Limits::micros_to(0, 10_000);
    "How long a caller who waits for a receipt keeps looking before it goes to sleep. Shortens a round trip by what a wake costs, and costs the CPU it looks with; 100 µs are plenty.";
    because "a service with many waiting threads has better use for its CPU.";

    worker_spin: Duration, fn(Duration);
    properties: ["worker_spin_us"], default: "0", limits: Limits::micros_to(0, 10_000);
    "How long the worker keeps looking for more after it had work, before it goes to sleep. As with `wait_spin_us`; 50 µs are plenty.";
    because "as with `wait_spin_us`.";

    drop_timeout: Duration, fn(Duration);
    properties: ["drop_timeout_ms"], default: "1000", limits: Limits::millis(0);
    "How long dropping the last handle of a producer may wait for what is still on its way. `stop` has its own deadline, and tells what was left.";
    because "long enough for what is in flight to come home, short enough not to be taken for a hang.";
}
}
