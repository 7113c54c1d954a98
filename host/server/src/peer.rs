//! The other end of a connection: its address, and on this machine its user.
//!
//! Whoever has a loopback connection to this server owns a socket of this machine, and Linux says of each socket whose
//! it is. So programs of the user that runs the server are told from those of other users without a secret.

#[cfg(target_os = "linux")]
mod lineage;

use axum::{
    extract::{ConnectInfo, FromRequestParts, connect_info::Connected},
    http::{Extensions, request::Parts},
};
use std::{
    convert::Infallible,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The other end of a connection. All requests of the connection share what was found out of it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    address: SocketAddr,
    known: Arc<Known>,
}

/// The facts about a connection that do not change: it has one socket at each end.
#[derive(Debug, Default)]
struct Known {
    is_own_user: AtomicBool,
    is_below_opcell: OnceLock<bool>,
}

impl Connected<SocketAddr> for Peer {
    fn connect_info(address: SocketAddr) -> Self {
        Self { address, known: Arc::default() }
    }
}

impl Peer {
    /// Returns the other end of a request's connection; the unspecified address where it is not known.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let nowhere = || Self::connect_info(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
        extensions.get::<ConnectInfo<Self>>().map_or_else(nowhere, |ConnectInfo(peer)| peer.clone())
    }

    /// Its address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address.ip()
    }

    /// Returns `true` if the program at the other end is an Opcell process or one started it, or if that cannot be found
    /// out. Looks at every process of this user once per connection.
    #[cfg(target_os = "linux")]
    pub(crate) async fn is_below_opcell(&self, own: SocketAddr) -> bool {
        if let Some(known) = self.known.is_below_opcell.get() {
            return *known;
        }
        let peer = self.address;
        let look = move || socket_diag::holder_of(peer, own).map(|(_, inode)| lineage::is_below_opcell(inode));
        match tokio::task::spawn_blocking(look).await {
            Ok(Some(found)) => *self.known.is_below_opcell.get_or_init(|| found),
            _ => true,
        }
    }

    /// Other systems do not say.
    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn is_below_opcell(&self, _: SocketAddr) -> bool {
        *self.known.is_below_opcell.get_or_init(|| true)
    }

    /// Returns `true` if it is a program of the user that runs this server, as far as the system says. `own` is where
    /// the server listens.
    pub(crate) fn is_own_user(&self, own: SocketAddr) -> bool {
        // A look that failed is repeated.
        let known = &self.known.is_own_user;
        if !known.load(Ordering::Relaxed) && is_of_own_user(self.address, own) {
            known.store(true, Ordering::Relaxed);
        }
        known.load(Ordering::Relaxed)
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Returns `true` if the socket at the other end of a loopback connection belongs to the user of this process.
#[cfg(target_os = "linux")]
fn is_of_own_user(peer: SocketAddr, own: SocketAddr) -> bool {
    let is_loopback = peer.ip().to_canonical().is_loopback() && own.ip().to_canonical().is_loopback();
    is_loopback
        && socket_diag::holder_of(peer, own).is_some_and(|(user, _)| user == rustix::process::geteuid().as_raw())
}

/// Other systems do not say whose a socket is.
#[cfg(not(target_os = "linux"))]
fn is_of_own_user(_: SocketAddr, _: SocketAddr) -> bool {
    false
}

/// `sock_diag(7)`: one request and one answer for one socket, however many there are.
#[cfg(target_os = "linux")]
mod socket_diag {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SOCK_DIAG, recv, send, socket_with,
    };
    use std::net::{IpAddr, SocketAddr};

    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const IPPROTO_TCP: u8 = 6;
    /// Sockets that wait for connections.
    const TCP_LISTEN: u8 = 10;
    const HEADER: usize = 16;
    /// `struct inet_diag_sockid`.
    const SOCKET_ID: usize = 48;
    const REQUEST: usize = HEADER + 8 + SOCKET_ID;

    /// The user and the inode of the socket that is bound to `local` and connected to `remote`; none where there is
    /// none, or where it was closed: the system calls those root's.
    pub(super) fn holder_of(local: SocketAddr, remote: SocketAddr) -> Option<(u32, u32)> {
        let (local, remote) = (canonical(local), canonical(remote));
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG));
        let netlink = netlink.ok()?;
        send(&netlink, &request(local, remote)?, SendFlags::empty()).ok()?;
        let mut answer = [0u8; 512];
        let (length, _) = recv(&netlink, &mut answer, RecvFlags::DONTWAIT).ok()?;
        read(answer.get(..length)?, local, remote)
    }

    fn canonical(address: SocketAddr) -> SocketAddr {
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    fn octets(address: IpAddr) -> [u8; 16] {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => octets.iter_mut().zip(address.octets()).for_each(|(to, from)| *to = from),
            IpAddr::V6(address) => octets = address.octets(),
        }
        octets
    }

    fn family(local: SocketAddr) -> u8 {
        let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        u8::try_from(family.as_raw()).unwrap_or_default()
    }

    /// `struct nlmsghdr`, then `struct inet_diag_req_v2`.
    fn request(local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
        let mut text = Vec::with_capacity(REQUEST);
        text.extend(u32::try_from(REQUEST).ok()?.to_ne_bytes());
        text.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        text.extend(NLM_F_REQUEST.to_ne_bytes());
        text.extend([0; 8]);
        text.extend([family(local), IPPROTO_TCP, 0, 0]);
        text.extend(u32::MAX.to_ne_bytes());
        text.extend(local.port().to_be_bytes());
        text.extend(remote.port().to_be_bytes());
        text.extend(octets(local.ip()));
        text.extend(octets(remote.ip()));
        text.extend([0; 4]);
        // No cookie: by addresses alone.
        text.extend([0xff; 8]);
        Some(text)
    }

    /// `struct nlmsghdr`, then `struct inet_diag_msg`.
    fn read(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> Option<(u32, u32)> {
        let u16_at = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
        let is_answer = u16_at(4)? == SOCK_DIAG_BY_FAMILY;
        let state = *answer.get(HEADER + 1)?;
        let socket = HEADER + 4;
        let is_meant = answer.get(socket..socket + 2)? == local.port().to_be_bytes()
            && answer.get(socket + 2..socket + 4)? == remote.port().to_be_bytes();
        let after = socket + SOCKET_ID;
        let (user, inode) = (u32_at(after + 12)?, u32_at(after + 16)?);
        (is_answer && is_meant && state != TCP_LISTEN && inode != 0).then_some((user, inode))
    }

    #[cfg(test)]
    mod tests {
        use super::holder_of;

        fn user_of(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
            holder_of(local, remote).map(|(user, _)| user)
        }
        use std::net::{SocketAddr, TcpListener, TcpStream};

        #[test]
        fn the_user_of_an_open_connection_is_known_and_of_a_closed_one_is_not() {
            for place in ["127.0.0.1:0", "[::1]:0"] {
                let Ok(listener) = TcpListener::bind(place) else {
                    eprintln!("SKIPPED: cannot listen at {place}");
                    continue;
                };
                let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (theirs, peer) = listener.accept().unwrap();
                let own = theirs.local_addr().unwrap();
                assert_eq!(user_of(peer, own), Some(rustix::process::geteuid().as_raw()), "{place}");
                assert_eq!(user_of(own, own), None, "a socket that listens is none that is connected");
                drop(ours);
                assert_eq!(user_of(peer, own), None, "{place}");
            }
        }
    }
}
