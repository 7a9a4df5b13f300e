//! The order of addresses: by zone, by what is under way, by turns, and by what failed.

use super::*;

fn located(count: u8, preferred: usize) -> Located {
    let addresses = (1..=count).map(address).collect();
    Located { addresses, preferred, authority: "web".to_owned(), tls: None, pinned: true }
}

fn address(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 80).into()
}

fn order(loads: &Loads, located: &Located) -> Vec<u8> {
    let last = |address: SocketAddr| match address {
        SocketAddr::V4(address) => address.ip().octets()[3],
        SocketAddr::V6(_) => 0,
    };
    loads.in_order(located).into_iter().map(last).collect()
}

#[test]
fn equals_take_turns() {
    let loads = Loads::default();
    let all = located(3, 0);
    let orders: Vec<_> = (0..4).map(|_| order(&loads, &all)).collect();
    assert_eq!(orders, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]);
}

#[test]
fn the_least_busy_is_first() {
    let loads = Loads::default();
    let all = located(3, 0);
    let twice = [loads.occupy(address(1)), loads.occupy(address(1))];
    let _once = loads.occupy(address(3));
    for _ in 0..6 {
        assert_eq!(order(&loads, &all), [2, 3, 1]);
    }
    drop(twice);
    for _ in 0..6 {
        assert_eq!(order(&loads, &all).last(), Some(&3));
    }
}

#[test]
fn preferred_ones_are_first_however_busy_and_take_turns_among_themselves() {
    let loads = Loads::default();
    let all = located(4, 2);
    let orders: Vec<_> = (0..2).map(|_| order(&loads, &all)).collect();
    assert_eq!(orders, [[1, 2, 3, 4], [2, 1, 4, 3]]);
    let _busy =
        [loads.occupy(address(1)), loads.occupy(address(1)), loads.occupy(address(2)), loads.occupy(address(4))];
    for _ in 0..4 {
        assert_eq!(order(&loads, &all), [2, 1, 3, 4]);
    }
}

#[test]
fn more_preferred_ones_than_there_are_is_all_of_them() {
    assert_eq!(order(&Loads::default(), &located(2, 9)), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_failed_comes_last_for_a_while_or_until_it_answers() {
    let loads = Loads::default();
    let all = located(3, 1);
    let near = loads.occupy(address(1));
    near.0.failed();
    for _ in 0..4 {
        assert_eq!(order(&loads, &all).last(), Some(&1), "also behind the far ones");
    }
    near.0.answered();
    assert_eq!(order(&loads, &all).first(), Some(&1));
    near.0.failed();
    drop(near);
    assert_eq!(order(&loads, &all).last(), Some(&1), "though nothing is under way to it");
    tokio::time::advance(AVOIDED).await;
    assert_eq!(order(&loads, &all).first(), Some(&1));
}

#[test]
fn what_is_remembered_is_bounded() {
    let loads = Loads::default();
    for port in 1..=u16::MAX {
        loads.occupy(([10, 0, 0, 1], port).into()).0.failed();
    }
    assert!(loads.by_address.lock().len() <= MOST_COUNTED + 1);
}
