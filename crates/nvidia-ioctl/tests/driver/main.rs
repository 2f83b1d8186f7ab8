//! The driver's ioctls in words: on the bytes of a real start-up, and on made ones.

mod any_bytes;
mod following;
mod fresh;
mod layouts;
mod recording;
mod start_up;
mod versions;
mod wrapped;
