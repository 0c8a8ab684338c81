//! What goes wrong, and when.

use crate::gate::Gate;
use crate::TOPICS;
use indicatif::ProgressBar;
use std::time::Duration;
use steadfast::testing::{Cluster, Fault, On, Times};
use steadfast::ErrorCode;

/// Causes one fault after the other, each at its place among the messages.
pub(crate) fn cause(cluster: &Cluster, gate: &Gate, messages: u64, bar: &ProgressBar) {
    let tell = |text: &str| bar.suspend(|| println!("{text}"));
    let at = |per_cent: u64, text: &str| {
        gate.let_through(messages * per_cent / 100);
        tell(&format!("{per_cent:3} %  {text}"));
    };

    at(5, "the leaders of all partitions move");
    move_leaders(cluster, |leader| leader % 3 + 1);
    at(10, "orders-0: too few replicas for the next three requests");
    let refused = Fault::error(ErrorCode::NotEnoughReplicas);
    cluster.fault(On::partition("orders", 0), Times::Next(3), refused);
    at(15, "clicks-3: appended, and the connection is closed instead of an answer");
    cluster.fault(On::partition("clicks", 3), Times::Once, Fault::close_after());
    at(20, "broker 2 crashes");
    cluster.crash(2);
    at(30, "broker 2 is back, and all leaders move");
    restart(cluster, 2, &tell);
    move_leaders(cluster, |leader| leader % 3 + 1);
    at(35, "audit-0 has no leader for half a second");
    cluster.move_leader("audit", 0, None);
    std::thread::sleep(Duration::from_millis(500));
    cluster.move_leader("audit", 0, 1);
    at(40, "broker 3 hangs: it reads nothing and answers nothing");
    cluster.hang(3);
    at(50, "... and is still hung; others will lead what it led");
    std::thread::sleep(Duration::from_millis(1500));
    move_leaders(cluster, |leader| if leader == 3 { 1 } else { leader });
    at(60, "broker 3 wakes up, and takes up what nobody waits for any more");
    cluster.resume(3);
    at(65, "orders-1, clicks-0: appended, and the answer is lost");
    cluster.fault(On::partition("orders", 1), Times::Once, Fault::lose_response());
    cluster.fault(On::partition("clicks", 0), Times::Once, Fault::lose_response());
    at(70, "the leaders of all partitions move");
    move_leaders(cluster, |leader| leader % 3 + 1);
    at(75, "audit-0: appended, and not by enough replicas");
    let unsure = Fault::error_after_append(ErrorCode::NotEnoughReplicasAfterAppend);
    cluster.fault(On::partition("audit", 0), Times::Next(2), unsure);
    at(80, "clicks-1: the next batch is found too large");
    cluster.fault(On::partition("clicks", 1), Times::Once, Fault::error(ErrorCode::MessageTooLarge));
    at(85, "orders-2: an answer is cut in the middle");
    cluster.fault(On::partition("orders", 2), Times::Once, Fault::cut_answer(9));
    at(90, "broker 1 asks for a pause of 300 ms");
    cluster.fault(On::Broker(1), Times::Once, Fault::throttle(Duration::from_millis(300)));
    at(95, "broker 1 closes all connections");
    cluster.disconnect(1);
    gate.open();
}

fn move_leaders(cluster: &Cluster, to: impl Fn(i32) -> i32) {
    for (topic, partitions) in TOPICS {
        for partition in 0..partitions {
            let moved = cluster.leader(topic, partition).filter(|&leader| to(leader) != leader);
            if let Some(leader) = moved {
                cluster.move_leader(topic, partition, to(leader));
            }
        }
    }
}

/// Its port was its own a moment ago; should something else have taken it, the run goes on with two brokers.
fn restart(cluster: &Cluster, broker: i32, tell: &impl Fn(&str)) {
    if let Err(error) = cluster.restart(broker) {
        tell(&format!("       broker {broker} can't come back: {error}"));
    }
}
