//! `wait_until_ready` says what is in the way.

use crate::harness::*;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;
use steadfast::testing::{Cluster, Fault, On, Times};
use steadfast::{Config, ErrorCode, Idempotence, Producer};

/// Waits in vain; what was in the way, in words.
fn in_the_way(config: Config, topics: &'static [&str], timeout: Duration) -> String {
    within(20 * SECOND, "waiting until ready", move || {
        let producer = Producer::new(config).expect("a producer");
        let (result, took, late) = timed(|| producer.wait_until_ready(topics, timeout));
        let reason = result.expect_err("not ready").reason;
        assert!(took >= timeout && took < timeout + ms(500) + late, "{took:?}");
        println!("{reason}");
        reason
    })
}

/// A port where something else than Kafka listens: answers whoever connects with these bytes.
fn other_server(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        // Those who were answered are kept: it is not the end of the connection that tells.
        let mut connections = Vec::new();
        for socket in listener.incoming() {
            let mut socket = socket.expect("a connection");
            // The client may have gone away already.
            let _ = socket.write_all(answer);
            connections.push(socket);
        }
    });
    address
}

#[test]
fn a_refused_port() {
    let cluster = Cluster::start(1).expect("a cluster");
    let address = cluster.address(1).to_string();
    cluster.crash(1); // its port stays reserved, and nobody listens there
    let reason = in_the_way(Config::new(address.as_str()), &[], ms(400));
    assert!(reason.contains(&address) && reason.contains("refused"), "{reason}");
}

#[test]
fn a_name_that_does_not_resolve() {
    let reason = in_the_way(Config::new("kafka.invalid:9092"), &[], 5 * SECOND);
    assert!(reason.contains("kafka.invalid:9092"), "{reason}");
    assert!(reason.contains("resolve") || reason.contains("lookup"), "{reason}");
}

#[test]
fn a_port_that_speaks_http() {
    let reason = in_the_way(Config::new(other_server(b"HTTP/1.1 400 Bad Request\r\n\r\n")), &[], ms(400));
    assert!(reason.contains("HTTP"), "{reason}");
}

#[test]
fn a_port_that_speaks_tls() {
    // A fatal alert: unexpected message.
    let reason = in_the_way(Config::new(other_server(&[0x15, 3, 3, 0, 2, 2, 10])), &[], ms(400));
    assert!(reason.contains("TLS"), "{reason}");
}

#[test]
fn a_port_that_says_nothing() {
    let config = Config::new(other_server(b"")).connection_setup_timeout(ms(200));
    let reason = in_the_way(config, &[], ms(700));
    assert!(reason.contains("does not say what it speaks"), "{reason}");
}

#[test]
fn brokers_that_close_at_once() {
    let cluster = Cluster::start(1).expect("a cluster");
    cluster.fault(On::Broker(1), Times::Always, Fault::close_before());
    let reason = in_the_way(Config::new(cluster.bootstrap()), &[], ms(400));
    assert!(reason.contains("closed the connection") && reason.contains("TLS"), "{reason}");
}

#[test]
fn a_missing_topic() {
    let cluster = Cluster::builder().topic(("there", 1)).start().expect("a cluster");
    let reason = in_the_way(Config::new(cluster.bootstrap()), &["there", "missing"], SECOND);
    assert!(reason.contains("missing") && !reason.contains("there"), "{reason}");
}

#[test]
fn a_name_that_is_none() {
    let cluster = Cluster::start(1).expect("a cluster");
    let producer = Producer::new(Config::new(cluster.bootstrap())).expect("a producer");
    let reason = producer.wait_until_ready(&["no such/name"], 5 * SECOND).expect_err("no name").reason;
    assert!(reason.contains("not a topic name"), "{reason}");
}

#[test]
fn a_partition_without_a_leader() {
    let cluster = Cluster::builder().topic(("t", 3)).start().expect("a cluster");
    cluster.move_leader("t", 1, None);
    let reason = in_the_way(Config::new(cluster.bootstrap()), &["t"], ms(600));
    assert!(reason.contains("leader") && reason.contains('t'), "{reason}");
}

/// The leader is known, and can't be reached where the cluster says it is.
#[test]
fn a_leader_that_is_advertised_where_nobody_listens() {
    let cluster = Cluster::builder().brokers(2).topic(("t", 2)).start().expect("a cluster");
    cluster.crash(2);
    let address = cluster.address(2);
    let other = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
    other.advertise(1, "127.0.0.1", address.port());
    let reason = in_the_way(Config::new(other.bootstrap()), &["t"], SECOND);
    assert!(reason.contains(&address.to_string()) && reason.contains("refused"), "{reason}");
}

#[test]
fn a_topic_that_may_not_be_seen() {
    let cluster = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
    let refused = Fault::error(ErrorCode::TopicAuthorizationFailed);
    cluster.fault(On::Requests(1, steadfast::testing::Api::Metadata), Times::Always, refused);
    let reason = in_the_way(Config::new(cluster.bootstrap()), &["t"], SECOND);
    assert!(reason.contains("TOPIC_AUTHORIZATION_FAILED"), "{reason}");
}

#[test]
fn a_producer_id_that_is_required_and_refused() {
    let cluster = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
    let refused = Fault::error(ErrorCode::ClusterAuthorizationFailed);
    cluster.fault(On::Requests(1, steadfast::testing::Api::InitProducerId), Times::Always, refused);
    let config = Config::new(cluster.bootstrap()).enable_idempotence(Idempotence::Required);
    let reason = in_the_way(config, &["t"], SECOND);
    assert!(reason.contains("idempotence") && reason.contains("CLUSTER_AUTHORIZATION_FAILED"), "{reason}");
}

/// Whatever was in the way goes away meanwhile.
#[test]
fn it_is_ready_as_soon_as_it_can_be() {
    within(20 * SECOND, "becoming ready", || {
        let cluster = Cluster::builder().topic(("early", 3)).start().expect("a cluster");
        cluster.brokers().for_each(|broker| cluster.crash(broker));
        let producer = Producer::new(Config::new(cluster.bootstrap())).expect("a producer");
        std::thread::scope(|scope| {
            let waiting = [&["early", "late"][..], &["early"], &[]].map(|topics| {
                let producer = &producer;
                scope.spawn(move || producer.wait_until_ready(topics, 15 * SECOND))
            });
            for broker in cluster.brokers() {
                cluster.restart(broker).expect("its port is kept for it");
            }
            cluster.create_topic("late", 2);
            for waiting in waiting {
                waiting.join().expect("no panic").expect("ready");
            }
        });
        producer.send("late", "now").expect("accepted").wait_one_timeout(5 * SECOND).expect("delivered");
    });
}

#[test]
fn a_stop_ends_the_wait() {
    within(20 * SECOND, "a wait that is stopped", || {
        let cluster = Cluster::start(1).expect("a cluster");
        let producer = Producer::new(Config::new(cluster.bootstrap())).expect("a producer");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| producer.wait_until_ready(&["missing"], 60 * SECOND));
            until(5 * SECOND, "it asks for the topic", || (cluster.requests().metadata > 0).then_some(()));
            assert!(producer.stop(SECOND).is_clean());
            let reason = waiting.join().expect("no panic").expect_err("not ready").reason;
            assert!(reason.contains("stopped"), "{reason}");
        });
    });
}
