//! Names that people have in their files and that are no knobs here: what each is met with.

/// What a name is met with.
#[derive(Clone, Copy)]
pub(super) enum Treatment {
    /// Any value is accepted and has no effect; the reason goes into `Config::notes`.
    Ignored(&'static str),
    /// These values are accepted, because they ask for what is done anyway; others are refused, for the reason given.
    Only(&'static [&'static str], &'static str),
    /// An error, with the reason.
    Refused(&'static str),
}

/// Names that are treated alike. One that ends with `*` stands for all that begin so.
pub(super) struct Other {
    pub names: &'static [&'static str],
    pub treatment: Treatment,
}

/// How this property is treated, if it is one of the known others.
pub(super) fn find(property: &str) -> Option<Treatment> {
    let is = |name: &&str| match name.strip_suffix('*') {
        Some(prefix) => property.starts_with(prefix),
        None => *name == property,
    };
    OTHERS.iter().find(|other| other.names.iter().any(is)).map(|other| other.treatment)
}

use Treatment::{Ignored, Only, Refused};

macro_rules! others {
    ($($treatment:expr => $($name:literal)*;)*) => {
        /// In the order of the documentation; the first match counts.
        pub(super) static OTHERS: &[Other] = &[$(Other { names: &[$($name),*], treatment: $treatment }),*];
    };
}

others! {
    Ignored("messages are bytes here: serialize them before `send`") =>
        "key.serializer" "value.serializer" "schema.registry.*";
    Ignored("nothing is reported to JMX or pushed to brokers: `stats()` and `status()` have the figures") =>
        "metric.reporters" "metrics.num.samples" "metrics.recording.level" "metrics.sample.window.ms"
        "enable.metrics.push" "auto.include.jmx.reporter";
    Ignored("names are looked up again and again, away from the callers, for as long as messages wait") =>
        "bootstrap.resolve.timeout.ms";
    Ignored("a batch takes memory as it grows, always") => "buffer.memory.allocation.strategy";
    Ignored("brokers are not asked whether they are of the cluster that was meant") => "metadata.cluster.check.enable";
    Ignored("there are no transactions here") => "transaction.timeout.ms";

    Only(&["PLAINTEXT"], "TLS and SASL come in a later release; until then PLAINTEXT") => "security.protocol";
    Only(&["use_all_dns_ips"], "all addresses of a name are tried; canonical names are for Kerberos, and SASL comes in a later release") =>
        "client.dns.lookup";
    Only(
        &["", "org.apache.kafka.clients.producer.internals.DefaultPartitioner"],
        "there are no partitioner classes: the partitioner is Java's default, and a message may name its partition (`Message::partition`)"
    ) => "partitioner.class";
    Only(&[""], "there are no interceptors: do it before `send`, or in `on_delivery`") => "interceptor.classes";
    Only(&[""], "there are no config providers: put the values in first") => "config.providers";
    Only(&["false"], "there are no transactions here") => "transaction.two.phase.commit.enable";

    Refused("TLS and SASL come in a later release") => "ssl.*" "sasl.*" "security.providers";
    Refused("there are no config providers: put the values in first") => "config.providers.*";
    Refused("there are no transactions: `enable.idempotence` keeps messages of a partition from being doubled or reordered, without it") =>
        "transactional.id";

    Refused("is librdkafka's name; here it is `bootstrap.servers`") => "metadata.broker.list";
    Refused("is librdkafka's name; here it is `linger.ms`") => "queue.buffering.max.ms";
    Refused("is librdkafka's name; here it is `buffer.memory`, in bytes") =>
        "queue.buffering.max.kbytes" "queue.buffering.max.messages";
    Refused("is librdkafka's name; here it is `retries`") => "message.send.max.retries";
    Refused("is librdkafka's name; here it is `delivery.timeout.ms`") => "message.timeout.ms";
    Refused("is librdkafka's name; here it is `acks`") => "request.required.acks";
    Refused("is librdkafka's name; here it is `compression.type`") => "compression.codec";
    Refused("is librdkafka's name; here each codec has its own, like `compression.zstd.level`") => "compression.level";
    Refused("is librdkafka's name; here it is `max.in.flight.requests.per.connection`") => "max.in.flight";
    Refused("is librdkafka's and the brokers' name; here it is `max.request.size`") => "message.max.bytes";
    Refused("is librdkafka's name; here `batch.size` limits a batch, in bytes") => "batch.num.messages";
    Refused("is librdkafka's name; here it is `request.timeout.ms`") => "socket.timeout.ms";
    Refused("is librdkafka's name; here it is `metadata.max.age.ms`") => "topic.metadata.refresh.interval.ms";
    Refused("is librdkafka's name; here it is `unknown_topic_grace_ms`") => "topic.metadata.propagation.max.ms";
    Refused("is librdkafka's name; here it is `send.buffer.bytes`") => "socket.send.buffer.bytes";
    Refused("is librdkafka's name; here it is `receive.buffer.bytes`") => "socket.receive.buffer.bytes";
    Refused("is librdkafka's; here the partitioner is Java's, which librdkafka calls `murmur2_random`") => "partitioner";
    Refused("is librdkafka's; versions are agreed with each broker, always") =>
        "api.version.request" "api.version.request.timeout.ms" "api.version.fallback.ms" "broker.version.fallback";
    Refused("is librdkafka's; here `stats()` and `status()` are asked when they are wanted") => "statistics.interval.ms";
    Refused("is librdkafka's; here the `log` crate decides what is logged") => "debug" "log_level";

    Refused("belongs to consumers") =>
        "group.id" "group.instance.id" "group.protocol" "group.remote.assignor" "auto.offset.reset"
        "enable.auto.commit" "auto.commit.interval.ms" "max.poll.records" "max.poll.interval.ms"
        "session.timeout.ms" "heartbeat.interval.ms" "isolation.level" "key.deserializer" "value.deserializer"
        "fetch.min.bytes" "fetch.max.bytes" "fetch.max.wait.ms" "max.partition.fetch.bytes" "check.crcs"
        "exclude.internal.topics" "partition.assignment.strategy" "share.acknowledgement.mode"
        "share.acquire.mode" "internal.throw.on.fetch.stable.offset.unsupported" "enable.auto.offset.store"
        "fetch.wait.max.ms" "queued.min.messages" "enable.partition.eof";
    Refused("belongs to consumers and admin clients") => "default.api.timeout.ms";
    Refused("belongs to admin clients; brokers are named by `bootstrap.servers`") => "bootstrap.controllers";

    Refused("has a prefix of Kafka Streams or Connect; the name behind it is what is wanted here") => "producer.*";
    Refused("belongs to Kafka Streams") =>
        "application.id" "application.server" "acceptable.recovery.lag" "allow.os.group.write.access"
        "buffered.records.per.partition" "built.in.metrics.version" "cache.max.bytes.buffering"
        "commit.interval.ms" "default.client.supplier" "default.deserialization.exception.handler"
        "default.dsl.store" "default.interactive.query.isolation.level" "default.key.serde"
        "default.list.*" "default.production.exception.handler" "default.timestamp.extractor"
        "default.value.serde" "deserialization.exception.handler" "dsl.store.*" "enable.transactional.statestores"
        "ensure.explicit.internal.resource.naming" "errors.dead.letter.queue.topic.name"
        "log.summary.interval.ms" "max.task.idle.ms" "max.warmup.replicas" "num.standby.replicas"
        "num.stream.threads" "poll.ms" "probing.rebalance.interval.ms" "processing.*" "processor.wrapper.class"
        "production.exception.handler" "rack.aware.assignment.*" "repartition.purge.interval.ms"
        "replication.factor" "rocksdb.config.setter" "state.*" "statestore.*" "task.assignor.class"
        "task.timeout.ms" "topology.*" "upgrade.from" "window.size.ms" "windowed.inner.class.serde"
        "windowstore.*" "consumer.*" "main.consumer.*" "restore.consumer.*" "global.consumer.*" "admin.*";
    Refused("is set on topics or brokers, not in clients") =>
        "max.message.bytes" "min.insync.replicas" "cleanup.policy" "retention.ms" "retention.bytes"
        "segment.bytes" "message.timestamp.type" "num.partitions" "default.replication.factor"
        "auto.create.topics.enable" "unclean.leader.election.enable" "socket.request.max.bytes" "broker.id"
        "broker.rack" "node.id" "process.roles" "listeners" "advertised.listeners" "log.dirs"
        "zookeeper.connect";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::knobs::KNOBS;

    #[test]
    fn no_name_is_listed_twice_or_hides_a_knob() {
        let mut seen = std::collections::HashSet::new();
        for name in OTHERS.iter().flat_map(|other| other.names) {
            assert!(seen.insert(name), "{name} is listed twice");
        }
        for property in KNOBS.iter().flat_map(|knob| knob.properties) {
            assert!(find(property).is_none(), "{property} is a knob");
        }
    }
}
