//! Nothing goes wrong.

use super::world::{ms, secs, World};

#[test]
fn messages_arrive_in_order_and_once() {
    let mut world = World::new(&[]).topic("t", 3);
    for _ in 0..20 {
        world.send("t", 10);
        world.run_for(ms(3));
    }
    world.finish_delivered(secs(5));
    assert_eq!(world.stats().retries, 0);
}
