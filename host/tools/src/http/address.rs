//! The network addresses that a plugin's request may reach.
//!
//! Pure policy over one address; who resolves names and connects is elsewhere. The tables follow the IANA
//! special-purpose registries (RFC 6890 and its successors) and the metadata addresses of the large clouds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// Globally reachable.
    Public,
    /// This machine.
    Loopback,
    /// A private, shared (carrier-grade NAT) or unique local network.
    Private,
    /// This link; cloud metadata services live here.
    LinkLocal,
    /// A cloud's metadata service outside the link-local range.
    Metadata,
    /// Unspecified, multicast, documentation, benchmarking, translation or otherwise reserved: never a server.
    Reserved,
}

impl AddressClass {
    /// Classifies an address; an IPv4 address inside an IPv6 one (mapped, compatible, translated, 6to4) counts as
    /// itself.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Returns `true` if a request may go there: public addresses always; this machine and private networks only where
    /// the grant says so; link-local, metadata and reserved addresses never.
    #[must_use]
    pub fn permitted(self, private_granted: bool) -> bool {
        match self {
            Self::Public => true,
            Self::Loopback | Self::Private => private_granted,
            Self::LinkLocal | Self::Metadata | Self::Reserved => false,
        }
    }

    /// Returns the name of the class in a denial.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata address",
            Self::Reserved => "a reserved address",
        }
    }
}

/// Metadata services outside link-local: Alibaba, Oracle, Azure.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];

/// Metadata services inside unique local space: AWS, Google.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

fn of_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => AddressClass::Private,
        [169, 254, ..] => AddressClass::LinkLocal,
        // This network, protocol assignments, documentation, 6to4 relays, benchmarking, multicast and class E.
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [224..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    if METADATA_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    match address.segments() {
        // Mapped (RFC 4291), compatible (deprecated), translated (RFC 2765) and NAT64 (RFC 6052): the last four bytes
        // decide.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4 (RFC 3056).
        | [0x2002, high, low, ..] => of_v4(embedded(high, low)),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        // Teredo and the other protocol assignments, documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::AddressClass::{self, LinkLocal, Loopback, Metadata, Private, Public, Reserved};

    #[test]
    fn every_special_range_is_what_the_registries_say() {
        let table = [
            ("140.82.121.6", Public),
            ("1.1.1.1", Public),
            ("100.63.255.255", Public),
            ("100.128.0.0", Public),
            ("172.15.255.255", Public),
            ("172.32.0.0", Public),
            ("192.0.1.1", Public),
            ("223.255.255.255", Public),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("100.127.255.255", Private),
            ("169.254.0.1", LinkLocal),
            ("169.254.169.254", LinkLocal),
            ("100.100.100.200", Metadata),
            ("192.0.0.192", Metadata),
            ("168.63.129.16", Metadata),
            ("0.0.0.0", Reserved),
            ("0.1.2.3", Reserved),
            ("192.0.0.1", Reserved),
            ("192.0.2.1", Reserved),
            ("192.88.99.1", Reserved),
            ("198.18.0.1", Reserved),
            ("198.19.255.255", Reserved),
            ("198.51.100.7", Reserved),
            ("203.0.113.9", Reserved),
            ("224.0.0.1", Reserved),
            ("240.0.0.1", Reserved),
            ("255.255.255.255", Reserved),
            ("2606:4700::1111", Public),
            ("2a00:1450:4001::8a", Public),
            ("::1", Loopback),
            ("::", Reserved),
            ("fc00::1", Private),
            ("fdff::1", Private),
            ("fec0::1", Private),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("ff02::1", Reserved),
            ("100::1", Reserved),
            ("2001::1", Reserved),
            ("2001:db8::1", Reserved),
            ("3fff::1", Reserved),
            ("5f00::1", Reserved),
            ("64:ff9b:1::1", Reserved),
            ("4000::1", Reserved),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", LinkLocal),
            ("::ffff:8.8.8.8", Public),
            ("::127.0.0.1", Loopback),
            ("::ffff:0:10.0.0.1", Private),
            ("64:ff9b::10.0.0.1", Private),
            ("64:ff9b::1.1.1.1", Public),
            ("2002:7f00:1::", Loopback),
            ("2002:a9fe:a9fe::1", LinkLocal),
        ];
        for (text, expected) in table {
            assert_eq!(AddressClass::of(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_grant_opens_private_networks_but_never_metadata_services() {
        assert!(Public.permitted(false));
        for class in [Loopback, Private] {
            assert!(!class.permitted(false));
            assert!(class.permitted(true));
        }
        for class in [LinkLocal, Metadata, Reserved] {
            assert!(!class.permitted(true));
        }
    }
}
