//! Three nodes behind proxies: the brokers are well, and the network is not.

use crate::failover::Fleet;
use crate::support::kafka;
use crate::support::proxy::{Cut, Proxy, Way};
use crate::support::wait;
use std::time::Duration;

fn total(proxies: &[Proxy], way: Way) -> u64 {
    proxies.iter().map(|proxy| proxy.cuts(way)).sum()
}

/// Connections end in the middle of requests (the broker has half of one) and in the middle of responses (all was written,
/// and the client has half of the news).
#[test]
fn network_connections_cut_in_mid_frame() {
    let Some(cluster) = kafka::three() else { return };
    let (proxies, through) = cluster.proxies();
    for (seed, proxy) in (0..).zip(&proxies) {
        let mut random = fastrand::Rng::with_seed(seed);
        proxy.plan(move |_| {
            let way = if random.bool() { Way::ToBroker } else { Way::ToClient };
            Some(Cut { way, frame: random.u64(3..60), percent: random.u64(1..100) })
        });
    }
    let fleet = Fleet::start(&cluster, "cut", &through);
    wait::until(Duration::from_secs(60), "twenty cuts each way", || {
        (total(&proxies, Way::ToBroker) >= 20 && total(&proxies, Way::ToClient) >= 20).then_some(())
    });
    proxies.iter().for_each(Proxy::stop_cutting);
    proxies.iter().for_each(Proxy::cut_all);
    fleet.await_delivered(300);
    fleet.check();
}

/// One way goes dead, nothing is closed: first no answers arrive, then no requests.
#[test]
fn network_one_way_goes_dead() {
    let Some(cluster) = kafka::three() else { return };
    let (proxies, through) = cluster.proxies();
    let fleet = Fleet::start(&cluster, "dead", &through);
    for way in [Way::ToClient, Way::ToBroker] {
        proxies.iter().for_each(|proxy| proxy.stall(way, true));
        fleet.await_unanswered();
        proxies.iter().for_each(|proxy| proxy.stall(way, false));
        fleet.await_delivered(300);
    }
    fleet.check();
}
