/* The part of the simulation that calls SimGrid: see sim_net.h. */
#include "verify/tests/sim/sim_net.h"

#include <simgrid/s4u.hpp>

#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

struct rank_state {
    sg4::Mailbox *mailbox;
    sg4::Host *inner;
};

std::vector<rank_state> ranks;
std::vector<sg4::BarrierPtr> node_barriers;
sg4::BarrierPtr all_barrier;
int per_node;

void rank_main(int rank, void (*body)(int))
{
    sg4::Actor::self()->set_data(reinterpret_cast<void *>(static_cast<intptr_t>(rank)));
    ranks[rank].mailbox->set_receiver(sg4::Actor::self());
    all_barrier->wait();
    body(rank);
}

} // namespace

void sim_run(const sim_platform *platform, int nranks, int ranks_per_node, void (*body)(int))
{
    /* A plain model: the latency and bandwidth of the file, shared fairly. Small stacks, because
     * each rank has one. */
    static char name[] = "sim", model[] = "--cfg=network/model:CM02",
                cross[] = "--cfg=network/crosstraffic:0", stack[] = "--cfg=contexts/stack-size:256",
                guard[] = "--cfg=contexts/guard-size:0", quiet[] = "--log=root.thres:error",
                window[] = "--cfg=network/TCP-gamma:1e12";
    char *arguments[] = {name, model, cross, stack, guard, quiet, window, nullptr};
    int count = 7;
    sg4::Engine engine(&count, arguments);
    engine.load_platform(platform->file);
    per_node = ranks_per_node;
    all_barrier = sg4::Barrier::create(static_cast<unsigned>(nranks));
    ranks.resize(static_cast<size_t>(nranks));
    for (int rank = 0; rank < nranks; rank++) {
        char host[32], inner[32];
        platform->host_of(rank, host);
        platform->inner_host_of(rank, inner);
        ranks[rank] = {sg4::Mailbox::by_name(std::to_string(rank)), sg4::Host::by_name(inner)};
        if (rank % ranks_per_node == 0)
            node_barriers.push_back(sg4::Barrier::create(static_cast<unsigned>(ranks_per_node)));
        sg4::Actor::create(std::to_string(rank), sg4::Host::by_name(host),
                           [rank, body]() { rank_main(rank, body); });
    }
    engine.run();
}

int sim_self(void)
{
    return static_cast<int>(reinterpret_cast<intptr_t>(sg4::Actor::self()->get_data<void>()));
}

double sim_now_s(void)
{
    return sg4::Engine::get_clock();
}

void sim_sleep(double seconds)
{
    if (seconds > 0)
        sg4::this_actor::sleep_for(seconds);
}

void sim_send(int to, void *message, double bytes)
{
    ranks[to].mailbox->put_init(message, static_cast<uint64_t>(bytes))->detach();
}

void *sim_receive(void)
{
    return ranks[sim_self()].mailbox->get<void>();
}

void sim_move_in_node(int to, double bytes)
{
    sg4::Comm::sendto(ranks[sim_self()].inner, ranks[to].inner, static_cast<uint64_t>(bytes));
}

void sim_node_barrier(void)
{
    if (per_node > 1)
        node_barriers[sim_self() / per_node]->wait();
}

void sim_barrier(void)
{
    all_barrier->wait();
}
