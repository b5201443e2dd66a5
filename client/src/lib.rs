//! Client library for Omni, and the home of the `omni-client` command line.
//!
//! Text goes in as it is written, events come out as the server speaks. The library hides the wire types, checks that
//! the server keeps the protocol (order, contiguous audio, whole samples) and turns every failure into a [`ClientError`]
//! that says what went wrong and whether trying again helps. It never plays audio and never writes files.
//!
//! ```no_run
//! use omni_client::{Client, Endpoint, SpeechEvent, SpeechSettings};
//!
//! # async fn speak() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(&Endpoint::parse("http://127.0.0.1:50051")?).await?;
//! let (say, mut events) = client.speech(&SpeechSettings::default());
//! say.text("Hello there. ").await?;
//! say.text("Text may come in any pieces.").await?;
//! say.finish().await?;
//! while let Some(event) = events.next().await? {
//!     match event {
//!         SpeechEvent::Audio(_, audio) => println!("{} at {}", audio.samples(), audio.rate),
//!         SpeechEvent::Done(_, done) => {
//!             println!("{:?} after {:?}", done.finish, done.timings.total);
//!             break;
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod catalog;
mod client;
mod done;
mod endpoint;
mod error;
mod events;
mod health;
mod meter;
mod protocol;
mod session;
mod settings;

pub use catalog::{Model, Voice};
pub use client::Client;
pub use done::{Done, Finish, StageTiming, Timings, Usage};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{ClientError, FieldViolation, RpcError, code_name};
pub use events::{Audio, Limits, Ready, SpeechEvent, SpeechEvents, UtteranceId, Warning};
pub use health::{Serving, wait_until_serving};
pub use meter::{ChunkGap, Measured, Meter};
pub use session::{SessionClosed, SpeechSender};
pub use settings::{Buffering, SpeechSettings};
pub use tonic::Code;
