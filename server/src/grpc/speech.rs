//! `SpeechService`: opens sessions and pumps their events out.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use omni_proto::v1;
use omni_proto::v1::speech_service_server::SpeechService;
use tonic::{Request, Response, Status, Streaming};

use super::door::Door;
use super::status::status;
use super::{commands, reply};
use crate::session::Session;

type Reply<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub struct Speech {
    door: Door,
}

impl Speech {
    /// Serves whom `door` lets in.
    #[must_use]
    pub fn new(door: Door) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl SpeechService for Speech {
    type SpeakStream = Reply<v1::SpeakResponse>;
    type SynthesizeStream = Reply<v1::SynthesizeResponse>;

    async fn speak(
        &self,
        request: Request<Streaming<v1::SpeakRequest>>,
    ) -> Result<Response<Self::SpeakStream>, Status> {
        let (metadata, extensions, requests) = request.into_parts();
        let admitted = self.door.admit_speech("SpeechService/Speak", &extensions);
        let (info, place) = admitted.map_err(|error| status(&error))?;
        let commands = commands::spoken(requests, Arc::clone(&info), self.door.max_message);
        let mut seq = 0;
        let replies = self.door.speak(&metadata, commands, place);
        let replies = replies.flat_map(reply::with_warnings).map(move |event| {
            seq += 1;
            event
                .map(|event| reply::speak(event, seq, &info))
                .map_err(|error| status(&error))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn synthesize(
        &self,
        request: Request<v1::SynthesizeRequest>,
    ) -> Result<Response<Self::SynthesizeStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let admitted = self.door.admit_speech("SpeechService/Synthesize", &extensions);
        let (info, place) = admitted.map_err(|error| status(&error))?;
        let commands = commands::whole(request, &info);
        let replies = self.door.speak_as(&metadata, commands, place, Session::uncut);
        let replies = replies.flat_map(reply::with_warnings).filter_map(move |event| {
            let reply = match event {
                Ok(event) => reply::synthesize(event, &info),
                Err(error) => Some(Err(status(&error))),
            };
            std::future::ready(reply)
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
