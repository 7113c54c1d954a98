//! Room for large bodies whose senders are not known until the bodies are read.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large bodies at a time for hooks that exist.
const KNOWN: usize = 64;

/// Large bodies at a time for hooks that do not exist, which are read to their end only to look like the others.
const UNKNOWN: usize = 16;

/// Large bodies of one address at a time, for each of both.
const OF_ADDRESS: usize = 16;

/// Counts large bodies, by address and altogether.
pub(crate) struct HookRoom {
    known: Share,
    unknown: Share,
}

struct Share {
    all: Arc<Semaphore>,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A body that counts until this is dropped.
pub(crate) struct Permit {
    _all: OwnedSemaphorePermit,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Default for HookRoom {
    fn default() -> Self {
        let share = |most| Share { all: Arc::new(Semaphore::new(most)), by_address: Arc::default() };
        Self { known: share(KNOWN), unknown: share(UNKNOWN) }
    }
}

impl HookRoom {
    /// Room for one more body, if there is any.
    pub(crate) fn take(&self, exists: bool, address: IpAddr) -> Option<Permit> {
        let share = if exists { &self.known } else { &self.unknown };
        let address = network(address);
        let all = share.all.clone().try_acquire_owned().ok()?;
        let mut by_address = share.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_address.entry(address).or_default();
        if *count >= OF_ADDRESS {
            return None;
        }
        *count += 1;
        drop(by_address);
        Some(Permit { _all: all, by_address: share.by_address.clone(), address })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// One sender has 2^64 addresses of IPv6: its network counts.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn what_is_sent_to_no_hook_takes_no_room_of_one() {
        let room = HookRoom::default();
        let held: Vec<_> = (0..80).map(|sender| room.take(false, v4(sender))).collect();
        assert_eq!(held.iter().flatten().count(), UNKNOWN);
        assert!(room.take(true, v4(1)).is_some());
    }

    #[test]
    fn one_sender_does_not_take_what_others_need() {
        let room = HookRoom::default();
        let held: Vec<_> = (0..80).map(|_| room.take(true, v4(1))).collect();
        assert_eq!(held.iter().flatten().count(), OF_ADDRESS);
        assert!(room.take(true, v4(2)).is_some());
        drop(held);
        assert!(room.take(true, v4(1)).is_some());
        let v6 = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        let held: Vec<_> = (0..80).map(|host| room.take(true, v6(host))).collect();
        assert_eq!(held.iter().flatten().count(), OF_ADDRESS, "the addresses of one network are one sender");
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), v4(1));
    }
}
