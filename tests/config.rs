//! Configuration as a user meets it: methods, property names, files, errors, and the document that describes it.

use std::time::Duration;
use steadfast::internal::config::settings::Settings;
use steadfast::{
    Acks, Class, Codec, Config, ConfigError, ErrorCode, Idempotence, RecoveryStrategy, RetryAmbiguous,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn with(properties: &[(&str, &str)]) -> Result<Config, ConfigError> {
    properties.iter().try_fold(Config::new("a:1"), |config, (name, value)| config.set(name, value))
}

fn settings(properties: &[(&str, &str)]) -> Settings {
    with(properties).and_then(|c| c.settings()).unwrap_or_else(|e| panic!("{properties:?}: {e}"))
}

/// The error of names, values or of how they fit each other.
fn error(properties: &[(&str, &str)]) -> String {
    match with(properties).and_then(|c| c.settings()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{properties:?} is accepted"),
    }
}

fn notes(properties: &[(&str, &str)]) -> Vec<String> {
    with(properties).unwrap_or_else(|e| panic!("{properties:?}: {e}")).notes()
}

#[test]
fn the_document_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    let said = Config::describe();
    if std::env::var_os("STEADFAST_WRITE_DOCS").is_some() {
        std::fs::write(path, &said).expect("docs can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/configuration.md is there");
    // Not assert_eq: two whole documents side by side help nobody.
    for (number, (written, said)) in written.lines().zip(said.lines()).enumerate() {
        assert_eq!(written, said, "line {}: run with STEADFAST_WRITE_DOCS=1", number + 1);
    }
    assert_eq!(written.len(), said.len(), "run with STEADFAST_WRITE_DOCS=1");
}

#[test]
fn defaults() {
    let s = Config::new("a:1").settings().expect("defaults fit");
    assert_eq!(s.bootstrap_servers, [("a".to_owned(), 1)]);
    assert_eq!((s.client_id.as_str(), s.client_rack), ("steadfast", None));
    assert_eq!((s.acks, s.idempotence), (Acks::All, Idempotence::Preferred));
    assert_eq!((s.linger, s.batch_bytes, s.max_request_bytes), (ms(5), 1_000_000, 8 << 20));
    assert_eq!((s.buffer_bytes, s.max_block), (32 << 20, ms(60_000)));
    assert_eq!((s.delivery_timeout, s.request_timeout), (Some(ms(120_000)), ms(30_000)));
    assert_eq!(s.batch_retries_limit, Some(5));
    assert_eq!((s.batch_retry_backoff, s.batch_retry_backoff_max), (ms(300), ms(30_000)));
    assert_eq!(s.retry_ambiguous, RetryAmbiguous::Auto);
    assert_eq!((s.compression, s.max_in_flight), ((Codec::None, None), 5));
    assert_eq!((s.metadata_max_age, s.metadata_max_idle), (ms(300_000), ms(300_000)));
    assert!(s.allow_auto_create_topics && s.partitioner_adaptive);
    assert!(!s.partitioner_ignore_keys && !s.partitioner_rack_aware);
    assert_eq!(s.partitioner_availability_timeout, None);
    assert_eq!((s.recovery_strategy, s.recovery_trigger), (RecoveryStrategy::Rebootstrap, ms(300_000)));
    assert_eq!((s.connection_setup_timeout, s.connection_setup_timeout_max), (ms(10_000), ms(30_000)));
    assert_eq!((s.reconnect_backoff, s.reconnect_backoff_max), (ms(50), ms(1000)));
    assert_eq!(s.connections_max_idle, Some(ms(540_000)));
    assert_eq!((s.send_buffer_bytes, s.receive_buffer_bytes), (None, None));
    assert_eq!(s.unknown_topic_grace, ms(30_000));
    assert_eq!((s.wait_spin, s.worker_spin, s.drop_timeout), (ms(0), ms(0), ms(1000)));
    assert!(s.class_overrides.is_empty());
    assert!(Config::new("a:1").notes().is_empty());
    // A full batch of the default size passes a topic's default max.message.bytes, which counts it whole.
    assert!(s.batch_bytes + s.batch_bytes / 50 < 1_048_588);
}

/// One that is set by its method, and the same by each of its names.
#[test]
fn methods_and_names_set_the_same() {
    let base = || Config::new("a:1");
    let same: &[(Config, &[(&str, &str)])] = &[
        (base().client_id("me"), &[("client.id", "me")]),
        (base().client_rack("r1".to_owned()), &[("client.rack", "r1")]),
        (base().client_rack(None), &[("client.rack", "")]),
        (base().allow_auto_create_topics(false), &[("allow.auto.create.topics", "FALSE")]),
        (base().acks(Acks::Zero), &[("acks", "0")]),
        (base().acks(Acks::One), &[("acks", "1")]),
        (base().acks(Acks::All), &[("acks", "all"), ("acks", "-1")]),
        (
            base().enable_idempotence(Idempotence::Required),
            &[("enable.idempotence", "true"), ("enable.idempotence", "required")],
        ),
        (
            base().enable_idempotence(Idempotence::Off),
            &[("enable.idempotence", "false"), ("enable.idempotence", "off")],
        ),
        (base().enable_idempotence(Idempotence::Preferred), &[("enable.idempotence", "preferred")]),
        (base().batch_retries_limit(7), &[("batch_retries_limit", "7"), ("retries", "7")]),
        (base().batch_retries_limit(0), &[("batch_retries_limit", "0"), ("retries", "0")]),
        (
            base().batch_retries_limit(None),
            &[
                ("batch_retries_limit", "none"),
                ("batch_retries_limit", "2147483647"),
                ("retries", "2147483647"),
                ("retries", "None"),
            ],
        ),
        (
            base().batch_retry_backoff(ms(100)),
            &[("batch_retry_backoff_ms", "100"), ("retry.backoff.ms", "100")],
        ),
        (base().batch_retry_backoff_max(ms(900)), &[("retry.backoff.max.ms", "900")]),
        (base().delivery_timeout(ms(60_000)), &[("delivery.timeout.ms", "60000")]),
        (
            base().delivery_timeout(None),
            &[
                ("delivery.timeout.ms", "none"),
                ("delivery.timeout.ms", "-1"),
                ("delivery.timeout.ms", "2147483647"),
            ],
        ),
        (
            base().retry_ambiguous(RetryAmbiguous::Never),
            &[("retry_ambiguous", "false"), ("retry_ambiguous", "never")],
        ),
        (
            base().retry_ambiguous(RetryAmbiguous::Auto),
            &[("retry_ambiguous", "true"), ("retry_ambiguous", "auto")],
        ),
        (base().retry_ambiguous(RetryAmbiguous::Always), &[("retry_ambiguous", "always")]),
        (base().linger(Duration::from_micros(500)), &[("linger.ms", "0.5")]),
        (base().batch_bytes(16_384), &[("batch.size", "16384")]),
        (base().max_request_bytes(1 << 20), &[("max.request.size", "1048576")]),
        (base().buffer_bytes(1 << 20), &[("buffer.memory", "1048576")]),
        (base().max_block(Duration::MAX), &[("max.block.ms", "9223372036854775807")]),
        (
            base().compression(Codec::Gzip).compression_gzip_level(9),
            &[("compression.type", "gzip"), ("compression.gzip.level", "9")],
        ),
        (base().compression_gzip_level(None), &[("compression.gzip.level", "-1")]),
        (base().max_in_flight(1), &[("max.in.flight.requests.per.connection", "1")]),
        (base().connections_max_idle(None), &[("connections.max.idle.ms", "-1")]),
        (base().send_buffer_bytes(131_072), &[("send.buffer.bytes", "131072")]),
        (base().receive_buffer_bytes(None), &[("receive.buffer.bytes", "-1")]),
        (
            base().metadata_recovery_strategy(RecoveryStrategy::None),
            &[("metadata.recovery.strategy", "NONE")],
        ),
        (base().partitioner_availability_timeout(None), &[("partitioner.availability.timeout.ms", "0")]),
        (base().worker_spin(Duration::from_micros(50)), &[("worker_spin_us", "50")]),
        (
            base().override_class(ErrorCode::PolicyViolation, Class::RetryAfterBackoff),
            &[
                ("class.override.POLICY_VIOLATION", "retry-after-backoff"),
                ("class.override.44", "Retry-After-Backoff"),
            ],
        ),
    ];
    for (config, properties) in same {
        let expected = format!("{:?}", config.settings().expect("fits"));
        let all = with(properties).and_then(|c| c.settings()).map(|s| format!("{s:?}"));
        assert_eq!(all.as_ref(), Ok(&expected), "{properties:?}");
        let alike = properties.iter().all(|(name, _)| !name.contains("compression"));
        for property in properties.iter().filter(|_| alike) {
            let one = with(&[*property]).and_then(|c| c.settings()).map(|s| format!("{s:?}"));
            assert_eq!(one.as_ref(), Ok(&expected), "{property:?}");
        }
    }
}

#[test]
fn what_is_set_last_wins() {
    assert_eq!(settings(&[("retries", "3"), ("batch_retries_limit", "4")]).batch_retries_limit, Some(4));
    assert_eq!(settings(&[("batch_retries_limit", "4"), ("retries", "3")]).batch_retries_limit, Some(3));
    let config = with(&[("linger.ms", "7")]).expect("good").linger(ms(8));
    assert_eq!(config.get("linger.ms").as_deref(), Some("8"));
    let config = config.set("bootstrap.servers", "b:2, c").expect("good");
    let servers = config.settings().expect("good").bootstrap_servers;
    assert_eq!(servers, [("b".to_owned(), 2), ("c".to_owned(), 9092)]);
    assert_eq!(config.get("bootstrap.servers").as_deref(), Some("b:2, c"));
    assert_eq!(config.get("retries").as_deref(), Some("5"), "a default");
    assert_eq!(config.get("no.such"), None);
    let config = config.set("class.override.19", "drop").expect("good");
    assert_eq!(config.get("class.override.NOT_ENOUGH_REPLICAS").as_deref(), Some("drop"));
    assert_eq!(config.get("class.override.20"), None);
}

#[test]
fn servers_come_as_a_text_or_as_a_list() {
    let servers = |config: Config| config.get("bootstrap.servers");
    let expected = Some("a:1,b:2".to_owned());
    assert_eq!(servers(Config::new("a:1,b:2")), expected);
    assert_eq!(servers(Config::new(String::from("a:1,b:2"))), expected);
    assert_eq!(servers(Config::new(["a:1", "b:2"])), expected);
    assert_eq!(servers(Config::new(vec!["a:1".to_owned(), "b:2".to_owned()])), expected);
    assert_eq!(servers(Config::new(&["a:1", "b:2"][..])), expected);
    let none: [&str; 0] = [];
    let error = Config::new(none).validate().expect_err("no servers");
    assert_eq!(error.property, "bootstrap.servers");
    let error =
        Config::from_properties([("acks", "all")]).and_then(|c| c.validate()).expect_err("no servers");
    assert!(error.to_string().starts_with("bootstrap.servers: not set"), "{error}");
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (name, value, part) in [
        ("acks", "2", "allowed: `0`, `1`, `all` (or `-1`)"),
        ("acks", "", "allowed"),
        ("enable.idempotence", "yes", "`required` (or `true`)"),
        ("linger.ms", "-1", "allowed: 0 ms or more"),
        ("linger.ms", "five", "allowed: 0 ms or more"),
        ("request.timeout.ms", "9", "allowed: 10 to 2147483647 ms"),
        ("request.timeout.ms", "2147483648", "allowed"),
        ("delivery.timeout.ms", "0", "`none`"),
        ("retries", "-2", "0 to 2147483647; `none`"),
        ("batch.size", "1.5", "0 to 1073741824 bytes"),
        ("max.request.size", "1023", "1024 to 1073741824 bytes"),
        ("buffer.memory", "99999999999999999999", "bytes"),
        ("compression.type", "brotli", "`none`, `gzip`, `snappy`, `lz4`, `zstd`"),
        ("compression.gzip.level", "0", "1 to 9; `-1`"),
        ("compression.gzip.level", "10", "1 to 9; `-1`"),
        ("compression.lz4.level", "18", "1 to 17"),
        ("compression.zstd.level", "23", "-131072 to 22"),
        ("max.in.flight.requests.per.connection", "0", "1 to 1000000"),
        ("metadata.max.idle.ms", "4999", "5000 ms or more"),
        ("allow.auto.create.topics", "1", "`true`, `false`"),
        ("worker_spin_us", "10001", "0 to 10000 µs"),
        ("class.override.NO_SUCH", "drop", "not an error code"),
        ("class.override.0", "drop", "can't be changed"),
        ("class.override.DUPLICATE_SEQUENCE_NUMBER", "drop", "can't be changed"),
        ("class.override.44", "retry", "`retry-after-refresh`"),
    ] {
        let error = error(&[(name, value)]);
        assert!(error.starts_with(&format!("{name}: ")) && error.contains(part), "{name}={value}: {error}");
    }
    for config in [
        Config::new("a").request_timeout(Duration::ZERO),
        Config::new("a").compression_zstd_level(23),
        Config::new("a").max_in_flight(0),
        Config::new("a").batch_bytes(usize::MAX),
        Config::new("a").send_buffer_bytes(0),
        Config::new("a").client_id("x".repeat(40_000)),
        Config::new("a").override_class(ErrorCode::None, Class::Drop),
    ] {
        let error = config.validate().expect_err("out of range");
        assert!(!error.reason.is_empty());
        assert_eq!(config.clone().validate(), Err(error), "methods are checked as names are, when asked");
    }
}

#[test]
fn unknown_names_lead_to_the_nearest_known_one() {
    for (name, nearest) in [
        ("linger", "linger.ms"),
        ("linger_ms", "linger.ms"),
        ("Linger.ms", "linger.ms"),
        ("batch.sice", "batch.size"),
        ("buffer_bytes", "buffer.memory"),
        ("bootstrap.server", "bootstrap.servers"),
        ("retry.backof.ms", "retry.backoff.ms"),
        ("max.in.flight.requests", "max.in.flight.requests.per.connection"),
        ("batch.retries.limit", "batch_retries_limit"),
        ("compression.typ", "compression.type"),
    ] {
        assert_eq!(
            error(&[(name, "1")]),
            format!("{name}: not a known property; the nearest one is `{nearest}`")
        );
    }
}

#[test]
fn names_without_a_use_here_say_so() {
    for (name, value, part) in [
        ("group.id", "g", "belongs to consumers"),
        ("max.poll.records", "1", "belongs to consumers"),
        ("num.stream.threads", "1", "belongs to Kafka Streams"),
        ("main.consumer.max.poll.records", "1", "belongs to Kafka Streams"),
        ("bootstrap.controllers", "a:1", "admin clients"),
        ("min.insync.replicas", "2", "topics or brokers"),
        ("api.version.request", "true", "versions are agreed"),
        ("queue.buffering.max.ms", "5", "`linger.ms`"),
        ("transactional.id", "t", "`enable.idempotence`"),
        ("security.protocol", "SASL_SSL", "later release"),
        ("security.protocol", "SSL", "later release"),
        ("sasl.mechanism", "PLAIN", "later release"),
        ("ssl.truststore.location", "/x", "later release"),
        ("interceptor.classes", "com.example.X", "on_delivery"),
        (
            "partitioner.class",
            "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "Message::partition",
        ),
        ("client.dns.lookup", "resolve_canonical_bootstrap_servers_only", "later release"),
    ] {
        let error = error(&[(name, value)]);
        assert!(error.starts_with(&format!("{name}: ")) && error.contains(part), "{name}: {error}");
    }
    let secret = error(&[("sasl.jaas.config", "password=\"hunter2\"")]);
    assert!(!secret.contains("hunter2"), "{secret}");

    let file = [
        ("key.serializer", "org.apache.kafka.common.serialization.StringSerializer"),
        ("value.serializer", "org.apache.kafka.common.serialization.StringSerializer"),
        ("value.serializer", "org.apache.kafka.common.serialization.StringSerializer"),
        ("metric.reporters", "x.Y"),
        ("security.protocol", "plaintext"),
        ("interceptor.classes", ""),
        ("client.dns.lookup", "use_all_dns_ips"),
    ];
    let notes = notes(&file);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].starts_with("key.serializer: has no effect; messages are bytes"), "{notes:?}");
}

#[test]
fn required_idempotence_contradicts_what_it_cannot_have() {
    for (name, value) in
        [("acks", "1"), ("acks", "0"), ("retries", "0"), ("max.in.flight.requests.per.connection", "6")]
    {
        let said = error(&[("enable.idempotence", "true"), (name, value)]);
        assert!(said.contains("enable.idempotence") && said.contains(name), "{said}");
        settings(&[("enable.idempotence", "false"), (name, value)]);
    }
    let idempotence = |properties: &[(&str, &str)]| settings(properties).idempotence;
    assert_eq!(idempotence(&[("enable.idempotence", "true")]), Idempotence::Required);
    // As in Java's producer, the default gives way in silence.
    assert_eq!(idempotence(&[("acks", "1")]), Idempotence::Off);
    assert_eq!(idempotence(&[("retries", "0")]), Idempotence::Off);
    assert!(notes(&[("acks", "1")]).is_empty());
    assert_eq!(notes(&[("acks", "1"), ("enable.idempotence", "preferred")]).len(), 1);
    // A partition never has more than five, whatever the connection may have.
    assert_eq!(idempotence(&[("max.in.flight.requests.per.connection", "6")]), Idempotence::Preferred);
    assert_eq!(notes(&[("max.in.flight.requests.per.connection", "6")]).len(), 1);
}

#[test]
fn the_delivery_timeout_leaves_room_for_linger_and_a_request() {
    let times = |properties: &[(&str, &str)]| {
        let s = settings(properties);
        (s.delivery_timeout, s.request_timeout, s.linger)
    };
    const DELIVERY: &str = "delivery.timeout.ms";
    const REQUEST: &str = "request.timeout.ms";
    const LINGER: &str = "linger.ms";
    // What was not set gives way.
    assert_eq!(times(&[(REQUEST, "200000")]), (Some(ms(200_005)), ms(200_000), ms(5)));
    assert_eq!(times(&[(DELIVERY, "10000")]), (Some(ms(10_000)), ms(9995), ms(5)));
    assert_eq!(times(&[(DELIVERY, "20")]), (Some(ms(20)), ms(18), ms(2)));
    assert_eq!(times(&[(DELIVERY, "10000"), (LINGER, "4000")]), (Some(ms(10_000)), ms(6000), ms(4000)));
    assert_eq!(times(&[(DELIVERY, "30000"), (REQUEST, "30000")]), (Some(ms(30_000)), ms(30_000), ms(0)));
    assert_eq!(times(&[(DELIVERY, "30000"), (REQUEST, "29995")]), (Some(ms(30_000)), ms(29_995), ms(5)));
    assert_eq!(times(&[(DELIVERY, "none"), (LINGER, "999999")]), (None, ms(30_000), ms(999_999)));
    assert_eq!(notes(&[(DELIVERY, "10000")]).len(), 1);
    // What was set is not touched.
    for properties in [
        &[(DELIVERY, "1000"), (REQUEST, "1000"), (LINGER, "1")][..],
        &[(DELIVERY, "1000"), (REQUEST, "1001")],
        &[(DELIVERY, "1000"), (LINGER, "1000")],
        &[(DELIVERY, "5")],
    ] {
        let said = error(properties);
        assert!(said.starts_with(DELIVERY), "{said}");
        assert!(properties.iter().skip(1).all(|(name, _)| said.contains(name)), "{properties:?}: {said}");
    }
}

#[test]
fn brokers_answer_before_the_request_times_out() {
    for timeout in ["10", "100", "1000", "30000", "2147483647"] {
        let s = settings(&[("request.timeout.ms", timeout), ("delivery.timeout.ms", "none")]);
        assert!(s.ack_timeout < s.request_timeout && s.ack_timeout >= ms(1), "{timeout}");
        assert!(s.ack_timeout >= s.request_timeout * 4 / 5, "{timeout}");
        assert!(s.request_timeout - s.ack_timeout <= ms(2000), "{timeout}");
    }
}

#[test]
fn first_waits_and_their_maxima_fit() {
    let first_and_most = |s: Settings| {
        [
            (s.batch_retry_backoff, s.batch_retry_backoff_max),
            (s.reconnect_backoff, s.reconnect_backoff_max),
            (s.connection_setup_timeout, s.connection_setup_timeout_max),
        ]
    };
    for (at, (first, most)) in [
        ("retry.backoff.ms", "retry.backoff.max.ms"),
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(first_and_most(settings(&[(first, "50000")]))[at], (ms(50_000), ms(50_000)));
        assert_eq!(first_and_most(settings(&[(most, "20")]))[at], (ms(20), ms(20)));
        assert_eq!(first_and_most(settings(&[(first, "7"), (most, "9")]))[at], (ms(7), ms(9)));
        let said = error(&[(first, "9"), (most, "7")]);
        assert!(said.contains(first) && said.contains(most), "{said}");
    }
}

#[test]
fn sizes_fit() {
    assert_eq!(settings(&[("max.request.size", "100000")]).batch_bytes, 100_000);
    assert!(notes(&[("max.request.size", "100000")]).is_empty());
    assert_eq!(notes(&[("max.request.size", "100000"), ("batch.size", "200000")]).len(), 1);
    assert_eq!(settings(&[("batch.size", "0")]).batch_bytes, 1, "each message alone");
    let said = error(&[("partitioner.rack.aware", "true")]);
    assert!(said.contains("client.rack"), "{said}");
    assert!(settings(&[("partitioner.rack.aware", "true"), ("client.rack", "r")]).partitioner_rack_aware);
}

#[test]
fn no_limit_at_all_is_said_aloud() {
    assert!(notes(&[("retries", "2147483647")]).is_empty());
    assert_eq!(notes(&[("retries", "2147483647"), ("delivery.timeout.ms", "2147483647")]).len(), 1);
}

#[test]
fn codecs_and_levels() {
    let compression = |properties: &[(&str, &str)]| settings(properties).compression;
    assert_eq!(compression(&[("compression.type", "gzip")]), (Codec::Gzip, None));
    assert_eq!(
        compression(&[("compression.gzip.level", "3"), ("compression.type", "gzip")]),
        (Codec::Gzip, Some(3))
    );
    assert_eq!(
        compression(&[("compression.gzip.level", "3"), ("compression.type", "lz4")]),
        (Codec::Lz4, None)
    );
    assert_eq!(compression(&[("compression.type", "snappy")]), (Codec::Snappy, None));
    assert_eq!(notes(&[("compression.lz4.level", "9")]).len(), 1, "it has no effect");
    let zstd = [("compression.type", "zstd"), ("compression.zstd.level", "-5")];
    if cfg!(feature = "zstd") {
        assert_eq!(compression(&zstd), (Codec::Zstd, Some(-5)));
    } else {
        let said = error(&zstd);
        assert!(said.contains("cargo feature `zstd`"), "{said}");
    }
}

#[test]
fn a_file_of_javas_producer() {
    let text = "\
# as it lies around
bootstrap.servers = kafka-1:9092,\\
                    kafka-2:9092
! old
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.serializer=org.apache.kafka.common.serialization.StringSerializer
acks: all
retries 2147483647
max.block.ms=9223372036854775807\t
client.id=caf\\u00e9
";
    let check = |config: Config| {
        let s = config.settings().expect("fits");
        assert_eq!(s.bootstrap_servers.len(), 2);
        assert_eq!((s.batch_retries_limit, s.client_id.as_str()), (None, "café"));
        assert!(s.max_block > Duration::from_secs(1 << 28));
        assert_eq!(config.notes().len(), 2);
    };
    check(Config::from_properties_text(text).expect("good"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("producer.properties");
    std::fs::write(&file, text).expect("written");
    check(Config::from_properties_file(&file).expect("good"));
    std::fs::write(&file, text.replace("\\u00e9", "é").chars().map(|c| c as u8).collect::<Vec<_>>())
        .expect("written");
    check(Config::from_properties_file(&file).expect("Latin-1"));

    let missing = folder.path().join("no.such");
    let error = Config::from_properties_file(&missing).expect_err("not there");
    assert_eq!(error.property, missing.display().to_string());
    let error = Config::from_properties_text("a=b\nc=\\u1").expect_err("broken");
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn debug_shows_what_was_set() {
    let config = Config::new("a:1").linger(ms(7)).delivery_timeout(None);
    let shown = format!("{config:?}");
    assert_eq!(shown, r#"{"bootstrap.servers": "a:1", "delivery.timeout.ms": "none", "linger.ms": "7"}"#);
}
