//! From single values to `Settings`: what contradicts each other is refused, what does not fit is fitted, and notes say so.

use super::bootstrap;
use super::knob::error;
use super::knobs::{Chosen, Given};
use super::settings::{Acks, Idempotence, Settings};
use crate::error::ConfigError;
use crate::protocol::compression::Codec;
use std::time::Duration;

/// Settings, and what the user may want to know about how they came about.
pub(super) fn settings(given: &Given) -> Result<(Settings, Vec<String>), ConfigError> {
    let mut chosen = given.choose()?;
    let mut notes = Vec::new();
    let bootstrap_servers =
        bootstrap::parse(&chosen.bootstrap_servers).map_err(|reason| error("bootstrap.servers", reason))?;
    let idempotence = idempotence(given, &chosen, &mut notes)?;
    timeouts(given, &mut chosen, &mut notes)?;
    ceilings(given, &mut chosen)?;
    let compression = compression(given, &chosen, &mut notes)?;
    sizes(given, &mut chosen, &mut notes);
    surprises(&chosen, &mut notes)?;
    let settings = Settings {
        bootstrap_servers,
        client_id: chosen.client_id,
        client_rack: chosen.client_rack,
        acks: chosen.acks,
        idempotence,
        linger: chosen.linger,
        batch_bytes: chosen.batch_bytes.max(1),
        max_request_bytes: chosen.max_request_bytes,
        buffer_bytes: chosen.buffer_bytes,
        max_block: chosen.max_block,
        delivery_timeout: chosen.delivery_timeout,
        request_timeout: chosen.request_timeout,
        ack_timeout: ack_timeout(chosen.request_timeout),
        batch_retries_limit: chosen.batch_retries_limit,
        batch_retry_backoff: chosen.batch_retry_backoff,
        batch_retry_backoff_max: chosen.batch_retry_backoff_max,
        retry_ambiguous: chosen.retry_ambiguous,
        compression,
        max_in_flight: chosen.max_in_flight,
        metadata_max_age: chosen.metadata_max_age,
        metadata_max_idle: chosen.metadata_max_idle,
        allow_auto_create_topics: chosen.allow_auto_create_topics,
        recovery_strategy: chosen.metadata_recovery_strategy,
        recovery_trigger: chosen.metadata_recovery_trigger,
        connection_setup_timeout: chosen.connection_setup_timeout,
        connection_setup_timeout_max: chosen.connection_setup_timeout_max,
        reconnect_backoff: chosen.reconnect_backoff,
        reconnect_backoff_max: chosen.reconnect_backoff_max,
        connections_max_idle: chosen.connections_max_idle,
        send_buffer_bytes: chosen.send_buffer_bytes,
        receive_buffer_bytes: chosen.receive_buffer_bytes,
        partitioner_ignore_keys: chosen.partitioner_ignore_keys,
        partitioner_adaptive: chosen.partitioner_adaptive,
        partitioner_availability_timeout: chosen.partitioner_availability_timeout,
        partitioner_rack_aware: chosen.partitioner_rack_aware,
        unknown_topic_grace: chosen.unknown_topic_grace,
        class_overrides: chosen.class_overrides.0,
        wait_spin: chosen.wait_spin,
        worker_spin: chosen.worker_spin,
        drop_timeout: chosen.drop_timeout,
    };
    Ok((settings, notes))
}

/// How long brokers are told to wait for the replicas: less than the request timeout, so that their answer still arrives.
fn ack_timeout(request_timeout: Duration) -> Duration {
    request_timeout - (request_timeout / 5).min(Duration::from_secs(2))
}

fn idempotence(given: &Given, chosen: &Chosen, notes: &mut Vec<String>) -> Result<Idempotence, ConfigError> {
    let never_again = chosen.batch_retries_limit == Some(0);
    let refuse = |reason: &str| Err(error("enable.idempotence", reason));
    match chosen.enable_idempotence {
        Idempotence::Off => Ok(Idempotence::Off),
        Idempotence::Required if chosen.acks != Acks::All => {
            refuse("required, which needs acks=all, and acks is set to something else")
        }
        Idempotence::Required if never_again => {
            refuse("required, which needs retries, and batch_retries_limit (retries) is 0")
        }
        Idempotence::Required if chosen.max_in_flight > 5 => refuse(
            "required, which allows 5 requests in flight, and max.in.flight.requests.per.connection is larger",
        ),
        Idempotence::Required => Ok(Idempotence::Required),
        Idempotence::Preferred if chosen.acks != Acks::All || never_again => {
            if given.enable_idempotence.is_some() {
                notes.push("enable.idempotence: off, because it needs acks=all and retries".to_owned());
            }
            Ok(Idempotence::Off)
        }
        Idempotence::Preferred => {
            if chosen.max_in_flight > 5 {
                notes.push(
                    "max.in.flight.requests.per.connection: with idempotence at most 5 of them carry the same partition"
                        .to_owned(),
                );
            }
            Ok(Idempotence::Preferred)
        }
    }
}

/// `delivery.timeout.ms` must leave time for linger and one request. What the user set stays, the rest is fitted to it.
fn timeouts(given: &Given, chosen: &mut Chosen, notes: &mut Vec<String>) -> Result<(), ConfigError> {
    let Some(delivery) = chosen.delivery_timeout else { return Ok(()) };
    let needed = chosen.linger.saturating_add(chosen.request_timeout);
    if delivery >= needed {
        return Ok(());
    }
    if given.delivery_timeout.is_none() {
        notes.push(format!(
            "delivery.timeout.ms: raised to linger.ms + request.timeout.ms, {} ms",
            needed.as_millis()
        ));
        chosen.delivery_timeout = Some(needed);
        return Ok(());
    }
    let refuse = |others: &str| {
        Err(error(
            "delivery.timeout.ms",
            format!("{} ms are less than {others} together", delivery.as_millis()),
        ))
    };
    if given.request_timeout.is_none() {
        if given.linger.is_none() {
            chosen.linger = chosen.linger.min(delivery / 10);
        }
        match delivery.checked_sub(chosen.linger) {
            Some(rest) if rest >= SHORTEST_REQUEST => chosen.request_timeout = rest,
            _ => return refuse("linger.ms and 10 ms for a request"),
        }
        notes.push(format!(
            "request.timeout.ms: lowered to {} ms, to fit into delivery.timeout.ms",
            chosen.request_timeout.as_millis()
        ));
        return Ok(());
    }
    match delivery.checked_sub(chosen.request_timeout) {
        Some(rest) if given.linger.is_none() => {
            notes.push(format!(
                "linger.ms: lowered to {} ms, to fit into delivery.timeout.ms",
                rest.as_millis()
            ));
            chosen.linger = rest;
            Ok(())
        }
        _ if given.linger.is_none() => Err(error(
            "delivery.timeout.ms",
            format!("{} ms are less than request.timeout.ms", delivery.as_millis()),
        )),
        _ => refuse("linger.ms and request.timeout.ms"),
    }
}

/// The least that `request.timeout.ms` takes.
const SHORTEST_REQUEST: Duration = Duration::from_millis(10);

/// A first wait above its ceiling: refused if both were set, else the other one gives way.
fn ceilings(given: &Given, chosen: &mut Chosen) -> Result<(), ConfigError> {
    let fit = |first: (&str, Option<Duration>, &mut Duration),
               most: (&str, Option<Duration>, &mut Duration)| {
        if *first.2 <= *most.2 {
            return Ok(());
        }
        match (first.1, most.1) {
            (Some(_), Some(_)) => Err(error(first.0, format!("is more than {}", most.0))),
            (Some(_), None) => {
                *most.2 = *first.2;
                Ok(())
            }
            _ => {
                *first.2 = *most.2;
                Ok(())
            }
        }
    };
    fit(
        ("retry.backoff.ms", given.batch_retry_backoff, &mut chosen.batch_retry_backoff),
        ("retry.backoff.max.ms", given.batch_retry_backoff_max, &mut chosen.batch_retry_backoff_max),
    )?;
    fit(
        ("reconnect.backoff.ms", given.reconnect_backoff, &mut chosen.reconnect_backoff),
        ("reconnect.backoff.max.ms", given.reconnect_backoff_max, &mut chosen.reconnect_backoff_max),
    )?;
    fit(
        (
            "socket.connection.setup.timeout.ms",
            given.connection_setup_timeout,
            &mut chosen.connection_setup_timeout,
        ),
        (
            "socket.connection.setup.timeout.max.ms",
            given.connection_setup_timeout_max,
            &mut chosen.connection_setup_timeout_max,
        ),
    )
}

fn compression(
    given: &Given,
    chosen: &Chosen,
    notes: &mut Vec<String>,
) -> Result<(Codec, Option<i32>), ConfigError> {
    let (name, built_in) = match chosen.compression {
        Codec::None => ("none", true),
        Codec::Gzip => ("gzip", cfg!(feature = "gzip")),
        Codec::Snappy => ("snappy", cfg!(feature = "snappy")),
        Codec::Lz4 => ("lz4", cfg!(feature = "lz4")),
        Codec::Zstd => ("zstd", cfg!(feature = "zstd")),
    };
    if !built_in {
        let reason = format!("{name} is not built in: turn on the cargo feature `{name}` of steadfast");
        return Err(error("compression.type", reason));
    }
    if given.compression_lz4_level.is_some() {
        let level = chosen.compression_lz4_level;
        notes.push(format!("compression.lz4.level={level}: has no effect, the lz4 encoder has one level"));
    }
    let level = match chosen.compression {
        Codec::Gzip => chosen.compression_gzip_level,
        Codec::Zstd => Some(chosen.compression_zstd_level),
        Codec::None | Codec::Snappy | Codec::Lz4 => None,
    };
    Ok((chosen.compression, level))
}

fn sizes(given: &Given, chosen: &mut Chosen, notes: &mut Vec<String>) {
    if chosen.batch_bytes > chosen.max_request_bytes {
        if given.batch_bytes.is_some() {
            notes
                .push(format!("batch.size: lowered to max.request.size, {} bytes", chosen.max_request_bytes));
        }
        chosen.batch_bytes = chosen.max_request_bytes;
    }
}

fn surprises(chosen: &Chosen, notes: &mut Vec<String>) -> Result<(), ConfigError> {
    if chosen.batch_retries_limit.is_none() && chosen.delivery_timeout.is_none() {
        notes.push(
            "batch_retries_limit, delivery.timeout.ms: neither has a limit, so a message whose broker stays away waits for ever"
                .to_owned(),
        );
    }
    if chosen.partitioner_rack_aware && chosen.client_rack.is_none() {
        return Err(error("partitioner.rack.aware", "needs client.rack, which is not set"));
    }
    Ok(())
}
