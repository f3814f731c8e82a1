//! Values of variables that name something: displays, buses, tmux, connections, agent sockets, Wayland, PATH.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::env::path_list::PathList;
use whoseenv::origin::agent_socket::Scheme;
use whoseenv::origin::bus::Address;
use whoseenv::origin::display::Display;
use whoseenv::origin::{ssh, tmux, wayland};

fuzz_target!(|value: &[u8]| {
    if let Some(display) = Display::parse(value) {
        let _ = display.port();
    }
    for address in Address::parse_all(value) {
        let _ = (address.get("path"), address.get("abstract"));
    }
    if let Some(place) = tmux::Place::parse(value) {
        let _ = tmux::target(&place);
    }
    let _ = tmux::parse_layer(value);
    let _ = ssh::Connection::parse(value);
    let _ = Scheme::of(value);
    let _ = (wayland::path_of(value, None), wayland::path_of(value, Some(b"/run/user/1000")));
    let list = PathList::parse(value);
    let _ = (list.empty(), list.relative(), list.duplicates(), list.distinct());
});
