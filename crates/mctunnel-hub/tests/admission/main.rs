//! Who the hub takes in, as whom, and which of two tunnels is the active one: real TCP, TLS and HTTP/2, in one program.

#[cfg(test)]
mod bad_frames;
#[cfg(test)]
mod enrolment;
#[cfg(test)]
mod fake_agent;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod name_bound;
#[cfg(test)]
mod neighbours;
#[cfg(test)]
mod own_ca;
#[cfg(test)]
mod refused_early;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod renewal;
#[cfg(test)]
mod services;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod stalled;
#[cfg(test)]
mod unread;
