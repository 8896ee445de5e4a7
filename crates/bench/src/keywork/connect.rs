//! The connection, as a client that wants throughput sets it up.

use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use crate::{
    error::Error,
    proto::{
        CreateQueueRequest, DeleteQueueRequest, GetQueueRequest,
        queue_admin_client::QueueAdminClient, work_queue_client::WorkQueueClient,
    },
};

const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
const MOST_IN_A_MESSAGE: usize = 64 << 20;

/// A connection to Keywork.
#[derive(Clone, Debug)]
pub(crate) struct Keywork {
    /// Submitting and leasing.
    pub(super) jobs: WorkQueueClient<Channel>,
    queues: QueueAdminClient<Channel>,
}

impl Keywork {
    /// Connects.
    pub(crate) async fn connect(url: String) -> Result<Self, Error> {
        let channel = Endpoint::from_shared(url)?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect()
            .await?;
        let jobs =
            WorkQueueClient::new(channel.clone()).max_decoding_message_size(MOST_IN_A_MESSAGE);
        let queues = QueueAdminClient::new(channel);
        Ok(Self { jobs, queues })
    }

    /// Whether the server answers: that there is no such queue will do.
    pub(crate) async fn answers(&mut self) -> bool {
        let name = "bench-ready".into();
        let got = self.queues.get_queue(GetQueueRequest { name }).await;
        got.is_err_and(|status| status.code() == Code::NotFound)
    }

    /// Makes a queue with defaults.
    pub(crate) async fn create_queue(&mut self, queue: &str) -> Result<(), Error> {
        let name = queue.into();
        let request = CreateQueueRequest { name, config: None };
        self.queues.create_queue(request).await?;
        Ok(())
    }

    /// Deletes a queue with whatever is in it.
    pub(crate) async fn delete_queue(&mut self, queue: &str) -> Result<(), Error> {
        let name = queue.into();
        let request = DeleteQueueRequest { name, force: true };
        self.queues.delete_queue(request).await?;
        Ok(())
    }
}
