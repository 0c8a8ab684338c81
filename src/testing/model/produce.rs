//! A produce request at a broker.

use super::batch::{Batch, Defect};
use super::fault::{Effect, Fault, On};
use super::partition::{Appended, Refusal, Terms};
use super::request::{Produce, ProduceTopic, Request};
use super::versions::frame;
use super::{code, dress, millis, Arriving, Model, Reply, Seen, Step, Then};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId, ProduceResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// How a request came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub now: i64,
    pub broker: i32,
    pub connection: u64,
    pub taken_up: bool,
}

/// What a partition answers.
struct Answer {
    outcome: Result<Appended, Refusal>,
    /// A leader that the broker names instead of itself.
    hint: Option<(i32, i32)>,
    log_start: i64,
    delay: Duration,
}

impl Model {
    pub(super) fn produce(
        &mut self,
        arrival: Arrival,
        request: &Request,
        produce: &Produce,
        fault: Option<&Fault>,
    ) -> Step {
        self.check_request(arrival, request, produce);
        let faults = self.partition_faults(arrival, produce);
        if let Some(prevented) = faults.iter().flatten().find(|fault| fault.prevents()) {
            self.note_undone(arrival, produce);
            return match &prevented.0 {
                Effect::Late(time) => Step::Later(*time),
                Effect::Swallow => Step::Reply(Reply { then: Then::Freeze, ..Reply::default() }),
                _ => Reply::close(),
            };
        }
        // What concerns the connection: the broker's fault, else the first that any partition has.
        let of_answer = fault.or(faults.iter().flatten().find(|f| !matches!(f.0, Effect::Error { .. })));
        let throttle = self.throttle(arrival.broker, of_answer);
        let mut failed = false;
        let mut held = Duration::ZERO;
        let mut hinted = BTreeSet::new();
        let mut per_partition = faults.iter();
        let mut topics = Vec::with_capacity(produce.topics.len());
        for topic in &produce.topics {
            let name = self.name_of(request.version, topic);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for (index, batch) in &topic.partitions {
                let ordered = per_partition.next().and_then(Option::as_ref).or(fault);
                let answer =
                    self.partition_answer(arrival, request.version, produce, (&name, *index), batch, ordered);
                failed |= answer.outcome.is_err();
                held = held.max(answer.delay);
                hinted.extend(answer.hint.map(|(leader, _)| leader));
                partitions.push(encode_partition(*index, request.version, answer));
            }
            topics.push(encode_topic(request.version, topic, partitions));
        }
        if produce.acks == 0 {
            let mut step = dress(Vec::new(), throttle, of_answer);
            if let (Step::Reply(reply), true) = (&mut step, failed) {
                // Nobody waits for an answer: a broker tells of a failure by closing.
                reply.then = Then::Close;
            }
            return step;
        }
        let response =
            ProduceResponse::default().with_responses(topics).with_throttle_time_ms(millis(throttle));
        let response = match request.version >= 10 {
            true => response.with_node_endpoints(self.endpoints(&hinted)),
            false => response,
        };
        let bytes = frame(request.correlation, request.version >= 9, &response, request.version);
        let mut step = dress(bytes, throttle, of_answer);
        if let Step::Reply(reply) = &mut step {
            reply.delay = reply.delay.max(held);
        }
        step
    }

    fn check_request(&mut self, arrival: Arrival, request: &Request, produce: &Produce) {
        let broker = arrival.broker;
        let mut partitions = HashSet::new();
        for topic in &produce.topics {
            if topic.partitions.is_empty() {
                self.violation(format!("broker {broker}: a topic without partitions in a produce request"));
            }
            for (index, batch) in &topic.partitions {
                if !partitions.insert((topic.name.as_str(), topic.id, *index)) {
                    self.violation(format!("broker {broker}: partition {index} twice in a produce request"));
                }
                if let Err(defect) = batch {
                    self.violation(format!(
                        "broker {broker}: a batch for partition {index}: {}",
                        defect.what
                    ));
                }
                let zstd = batch.as_ref().is_ok_and(|batch| batch.codec() == 4);
                if zstd && request.version < 7 {
                    self.violation(format!("broker {broker}: zstd in Produce v{}", request.version));
                }
            }
        }
        if produce.topics.is_empty() {
            self.violation(format!("broker {broker}: an empty produce request"));
        }
    }

    /// What was ordered for each partition, in the request's order. If something prevents the whole request, only that
    /// is used up.
    fn partition_faults(&mut self, arrival: Arrival, produce: &Produce) -> Vec<Option<Fault>> {
        let mut faults = Vec::new();
        for topic in &produce.topics {
            let name = self.name_of(if topic.name.is_empty() { 13 } else { 0 }, topic).unwrap_or_default();
            for (index, batch) in &topic.partitions {
                if arrival.taken_up {
                    faults.push(None);
                    continue;
                }
                let hooked = self.ask_hook(arrival.broker, &name, *index, batch.as_ref().ok());
                let ordered = hooked.or_else(|| {
                    self.orders.take(|on| {
                        matches!(on, On::Partition(topic, partition) if *topic == name && partition == index)
                    })
                });
                faults.push(ordered);
            }
        }
        faults
    }

    fn ask_hook(&mut self, broker: i32, topic: &str, partition: i32, batch: Option<&Batch>) -> Option<Fault> {
        let arrivals = self.topics.get_mut(topic).map(|topic| &mut topic.arrivals);
        let count = arrivals.and_then(|counts| counts.get_mut(usize::try_from(partition).ok()?))?;
        let number = *count;
        *count += 1;
        let batch = batch?;
        let hook = self.hook.as_mut()?;
        hook(&Arriving {
            broker,
            topic,
            partition,
            number,
            count: batch.count,
            producer_id: batch.producer_id,
            producer_epoch: batch.epoch,
            sequence: batch.sequence,
        })
    }

    /// Err: what is answered where the topic is not known.
    fn name_of(&self, version: i16, topic: &ProduceTopic) -> Result<String, i16> {
        if version < 13 {
            return Ok(topic.name.clone());
        }
        self.names.get(&topic.id).cloned().ok_or(code::UNKNOWN_TOPIC_ID)
    }

    fn partition_answer(
        &mut self,
        arrival: Arrival,
        version: i16,
        produce: &Produce,
        (name, index): (&Result<String, i16>, i32),
        batch: &Result<Batch, Defect>,
        fault: Option<&Fault>,
    ) -> Answer {
        let mut answer = match name {
            Ok(name) => self.write(arrival, version, produce, (name, index), batch, fault),
            Err(code) => Answer::refused(Refusal::code(*code)),
        };
        if let Some(Effect::Error { code, message, records, append }) = fault.map(|fault| &fault.0) {
            if !*append || answer.outcome.is_ok() {
                let because = |text: &Option<String>| text.clone().unwrap_or_default();
                let records = records.iter().map(|(place, text)| (*place, because(text))).collect();
                let (code, message) = (*code, message.clone());
                let seen = answer.outcome.as_ref().ok().cloned();
                answer.outcome = Err(Refusal { code, message, records, violation: false });
                self.note(arrival, (name, index), batch, &answer.outcome, seen);
                return answer;
            }
        }
        if let Some(what) = answer.outcome.as_ref().err().filter(|refusal| refusal.violation) {
            let what = what.message.clone().unwrap_or_default();
            self.violation(format!("broker {}: partition {index}: {what}", arrival.broker));
        }
        let appended = answer.outcome.as_ref().ok().cloned();
        self.note(arrival, (name, index), batch, &answer.outcome, appended);
        answer
    }

    /// The ordinary course. (With a refusal ordered nothing is appended, but the leader is looked up all the same.)
    fn write(
        &mut self,
        arrival: Arrival,
        version: i16,
        produce: &Produce,
        (name, index): (&str, i32),
        batch: &Result<Batch, Defect>,
        fault: Option<&Fault>,
    ) -> Answer {
        let known = self.known_leader(arrival.broker, name, index);
        let refuse_unknown_producers = self.brokers[&arrival.broker].versions.refuse_unknown_producers;
        let (keep, check_records) = (self.options.keep_log, self.options.check_records);
        let topic = self.topics.get_mut(name);
        let truth = topic
            .and_then(|topic| Some((topic.partitions.get_mut(usize::try_from(index).ok()?)?, &topic.config)));
        let (Some((leader, leader_epoch)), Some((partition, config))) = (known, truth) else {
            return Answer::refused(Refusal::code(code::UNKNOWN_TOPIC_OR_PARTITION));
        };
        if !matches!(produce.acks, -1..=1) {
            return Answer::refused(Refusal::code(code::INVALID_REQUIRED_ACKS));
        }
        if partition.leader != arrival.broker || leader != arrival.broker {
            let other = leader != arrival.broker && leader >= 0 && version >= 10;
            let hint = other.then_some((leader, leader_epoch));
            return Answer { hint, ..Answer::refused(Refusal::code(code::NOT_LEADER_OR_FOLLOWER)) };
        }
        let batch = match batch {
            Ok(batch) if batch.codec() == 4 && version < 7 => {
                return Answer::refused(Refusal::code(code::UNSUPPORTED_COMPRESSION));
            }
            Ok(batch) => batch,
            Err(defect) => {
                let log_start = if defect.by_log { partition.start } else { -1 };
                return Answer { log_start, ..Answer::refused(Refusal::code(defect.code)) };
            }
        };
        let error = match fault.map(|fault| &fault.0) {
            Some(Effect::Error { append, code, .. }) => Some((*append, *code)),
            _ => None,
        };
        if let Some((false, code)) = error {
            return Answer { log_start: partition.start, ..Answer::refused(Refusal::code(code)) };
        }
        let terms = Terms {
            now: arrival.now,
            acks: produce.acks,
            keep,
            check_records,
            refuse_unknown_producers,
            uncommitted: error.is_some(),
        };
        let outcome = partition.append(batch, config, terms);
        let mut answer = Answer { outcome, hint: None, log_start: partition.start, delay: Duration::ZERO };
        if answer.outcome.as_ref().is_err_and(|refusal| refusal.code == code::MESSAGE_TOO_LARGE) {
            answer.log_start = -1;
        }
        let waits = partition.committed < partition.end && produce.acks == -1 && error.is_none();
        if let Ok(appended) = &answer.outcome {
            self.appended += if appended.duplicate { 0 } else { batch.count as u64 };
        }
        if waits && answer.outcome.is_ok() {
            answer.delay = Duration::from_millis(produce.timeout_ms.max(0) as u64);
            answer.outcome = Err(Refusal::code(code::REQUEST_TIMED_OUT));
        }
        answer
    }

    fn note(
        &mut self,
        arrival: Arrival,
        (name, partition): (&Result<String, i16>, i32),
        batch: &Result<Batch, Defect>,
        outcome: &Result<Appended, Refusal>,
        appended: Option<Appended>,
    ) {
        if !self.options.trace {
            return;
        }
        self.seen.push(Seen {
            at: arrival.now,
            broker: arrival.broker,
            connection: arrival.connection,
            topic: name.as_deref().unwrap_or("?").into(),
            partition,
            batch: batch.as_ref().ok().cloned(),
            code: Some(outcome.as_ref().map_or_else(|refusal| refusal.code, |_| code::NONE)),
            base_offset: appended.as_ref().map(|appended| appended.base_offset),
            duplicate: appended.is_some_and(|appended| appended.duplicate),
        });
    }

    fn note_undone(&mut self, arrival: Arrival, produce: &Produce) {
        if !self.options.trace {
            return;
        }
        for topic in &produce.topics {
            let name = self.name_of(if topic.name.is_empty() { 13 } else { 0 }, topic);
            for (partition, batch) in &topic.partitions {
                self.seen.push(Seen {
                    at: arrival.now,
                    broker: arrival.broker,
                    connection: arrival.connection,
                    topic: name.as_deref().unwrap_or("?").into(),
                    partition: *partition,
                    batch: batch.as_ref().ok().cloned(),
                    code: None,
                    base_offset: None,
                    duplicate: false,
                });
            }
        }
    }

    fn endpoints(&self, leaders: &BTreeSet<i32>) -> Vec<NodeEndpoint> {
        let described = leaders.iter().filter_map(|id| Some((*id, self.brokers.get(id)?)));
        described
            .map(|(id, broker)| {
                let host = StrBytes::from_string(broker.host.clone());
                let rack = broker.rack.clone().map(StrBytes::from_string);
                let endpoint = NodeEndpoint::default().with_node_id(BrokerId(id)).with_host(host);
                endpoint.with_port(broker.port).with_rack(rack)
            })
            .collect()
    }
}

impl Answer {
    fn refused(refusal: Refusal) -> Answer {
        Answer { outcome: Err(refusal), hint: None, log_start: -1, delay: Duration::ZERO }
    }
}

fn encode_topic(
    version: i16,
    topic: &ProduceTopic,
    partitions: Vec<PartitionProduceResponse>,
) -> TopicProduceResponse {
    let response = TopicProduceResponse::default().with_partition_responses(partitions);
    match version >= 13 {
        true => response.with_topic_id(topic.id.to_vec().try_into().expect("16 bytes")),
        false => response.with_name(TopicName(StrBytes::from_string(topic.name.clone()))),
    }
}

fn encode_partition(index: i32, version: i16, answer: Answer) -> PartitionProduceResponse {
    let mut response =
        PartitionProduceResponse::default().with_index(index).with_log_start_offset(answer.log_start);
    if let (Some((leader, epoch)), true) = (answer.hint, version >= 10) {
        let hint = LeaderIdAndEpoch::default().with_leader_id(BrokerId(leader)).with_leader_epoch(epoch);
        response = response.with_current_leader(hint);
    }
    match answer.outcome {
        Ok(appended) => {
            response.with_base_offset(appended.base_offset).with_log_append_time_ms(appended.append_time)
        }
        Err(refusal) => {
            let records = refusal.records.into_iter().map(|(place, text)| {
                let text = Some(StrBytes::from_string(text));
                BatchIndexAndErrorMessage::default()
                    .with_batch_index(place)
                    .with_batch_index_error_message(text)
            });
            let records = if version >= 8 { records.collect() } else { Vec::new() };
            response
                .with_base_offset(-1)
                .with_error_code(refusal.code)
                .with_record_errors(records)
                .with_error_message(refusal.message.map(StrBytes::from_string))
        }
    }
}
