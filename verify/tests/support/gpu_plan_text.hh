/*
 * Makes plans for gpu_test_plan.cc as JSON text: a rank's channels, buffers and thread blocks are
 * collected and then written. Every thread block lists all channels and remote buffers of its rank,
 * so its ids are those of the rank.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_PLAN_TEXT_HH
#define VERIFY_TESTS_SUPPORT_GPU_PLAN_TEXT_HH

#include <string>
#include <utility>
#include <vector>

namespace plan_text {

typedef std::string text;

static inline text number(long long value)
{
    return std::to_string(value);
}

static inline text list(const std::vector<int> &values)
{
    text all = "[";
    for (size_t i = 0; i < values.size(); i++)
        all += (i ? "," : "") + number(values[i]);
    return all + "]";
}

/* Chunks of the rank's own input, output or scratch. */
static inline text local(char buffer, int index, int size = 1)
{
    return text("{\"type\":\"") + buffer + "\",\"index\":" + number(index) +
           ",\"size\":" + number(size) + "}";
}

struct rank {
    int in = 0, out = 0, scratch = 0;
    std::vector<int> memory, ports; /* by channel: the peer */
    std::vector<std::pair<char, std::vector<int>>> groups;
    std::vector<std::pair<int, char>> remotes;
    std::vector<int> semaphores;
    std::vector<std::vector<text>> blocks;

    /* Chunks of a peer's buffer. */
    text remote(int peer, char buffer, int index, int size = 1)
    {
        size_t id = 0;
        while (id < remotes.size() && remotes[id] != std::make_pair(peer, buffer))
            id++;
        if (id == remotes.size())
            remotes.push_back({peer, buffer});
        return "{\"buffer_id\":" + number((long long)id) + ",\"index\":" + number(index) +
               ",\"size\":" + number(size) + "}";
    }
    /* A new memory channel. */
    int channel(int peer)
    {
        memory.push_back(peer);
        return (int)memory.size() - 1;
    }
    int port(int peer)
    {
        ports.push_back(peer);
        return (int)ports.size() - 1;
    }
    void add(size_t block, const text &op)
    {
        if (blocks.size() <= block)
            blocks.resize(block + 1);
        blocks[block].push_back(op);
    }
};

/* Chunks of the same buffer of all ranks of a group. */
static inline text group(int id, int index, int size = 1)
{
    return "{\"switch_channel_id\":" + number(id) + ",\"index\":" + number(index) +
           ",\"size\":" + number(size) + "}";
}

static inline text refs(const char *key, const std::vector<text> &all)
{
    text joined = text(",\"") + key + "\":[";
    for (size_t i = 0; i < all.size(); i++)
        joined += (i ? "," : "") + all[i];
    return joined + "]";
}

/* An operation that moves data. type: of its channels, or empty. */
static inline text move(const char *name, const std::vector<text> &src,
                        const std::vector<text> &dst, const char *type = "",
                        const std::vector<int> &ids = {}, const text &more = "")
{
    text op = text("{\"name\":\"") + name + "\"" + refs("src_buff", src) + refs("dst_buff", dst);
    if (*type)
        op += text(",\"channel_type\":\"") + type + "\"";
    if (!ids.empty())
        op += ",\"channel_ids\":" + list(ids);
    return op + more + "}";
}

/* For move: the part of the bytes that this thread block handles. */
static inline text part(int nth, int of)
{
    return ",\"tbg_info\":{\"tb_id\":" + number(nth) + ",\"tbg_size\":" + number(of) + "}";
}

static inline text sync(const char *name, const std::vector<int> &ids, const char *type = "memory")
{
    return text("{\"name\":\"") + name + "\",\"channel_type\":\"" + type +
           "\",\"channel_ids\":" + list(ids) + "}";
}

static inline text semaphore(const char *name, const std::vector<int> &ids)
{
    return text("{\"name\":\"") + name + "\",\"semaphore_ids\":" + list(ids) + "}";
}

static inline text barrier(int id, int nblocks)
{
    return "{\"name\":\"barrier\",\"barrier_id\":" + number(id) +
           ",\"num_threadblocks\":" + number(nblocks) + "}";
}

static inline text pipeline(int unit_bytes, int nchunks, const std::vector<text> &ops)
{
    text all = "{\"name\":\"pipeline\",\"iter_context\":{\"unit_size\":" + number(unit_bytes) +
               ",\"num_chunks\":" + number(nchunks) + "},\"ops\":[";
    for (size_t i = 0; i < ops.size(); i++)
        all += (i ? "," : "") + ops[i];
    return all + "]}";
}

static const text nop = "{\"name\":\"nop\"}";

static inline std::vector<int> all_below(size_t count)
{
    std::vector<int> ids;
    for (size_t i = 0; i < count; i++)
        ids.push_back((int)i);
    return ids;
}

static inline text block_text(const rank &of, size_t id)
{
    text all = "{\"id\":" + number((long long)id) + ",\"ops\":[";
    for (size_t i = 0; i < of.blocks[id].size(); i++)
        all += (i ? "," : "") + of.blocks[id][i];
    all += "],\"channels\":[{\"channel_type\":\"memory\",\"channel_ids\":" +
           list(all_below(of.memory.size())) + "},{\"channel_type\":\"port\",\"channel_ids\":" +
           list(all_below(of.ports.size())) + "},{\"channel_type\":\"switch\",\"channel_ids\":" +
           list(all_below(of.groups.size())) + "}],\"remote_buffer_refs\":[";
    const char *const types[] = {"memory", "port"};
    for (int i = 0; i < 2; i++)
        all += text(i ? "," : "") + "{\"access_channel_type\":\"" + types[i] +
               "\",\"remote_buffer_ids\":" + list(all_below(of.remotes.size())) + "}";
    return all + "]}";
}

static inline text channels_text(const rank &of)
{
    text all = "[{\"channel_type\":\"memory\",\"connected_to\":" + list(of.memory) +
               "},{\"channel_type\":\"port\",\"connected_to\":" + list(of.ports) + "}";
    for (const auto &one : of.groups)
        all += text(",{\"channel_type\":\"switch\",\"buffer_type\":\"") + one.first +
               "\",\"rank_groups\":[{\"size\":1,\"ranks\":" + list(one.second) + "}]}";
    return all + "]";
}

static inline text rank_text(const rank &of, size_t id)
{
    text all = "{\"id\":" + number((long long)id) + ",\"input_chunks\":" + number(of.in) +
               ",\"output_chunks\":" + number(of.out) +
               ",\"scratch_chunks\":" + number(of.scratch) +
               ",\"channels\":" + channels_text(of) + ",\"remote_buffers\":[";
    for (size_t i = 0; i < of.remotes.size(); i++)
        all += text(i ? "," : "") + "{\"rank\":" + number(of.remotes[i].first) + ",\"type\":\"" +
               of.remotes[i].second + "\",\"access_channel_types\":[\"memory\",\"port\"]}";
    all += "],\"semaphores\":[";
    for (size_t i = 0; i < of.semaphores.size(); i++)
        all += text(i ? "," : "") + "{\"init_value\":" + number(of.semaphores[i]) + "}";
    all += "],\"threadblocks\":[";
    for (size_t i = 0; i < of.blocks.size(); i++)
        all += (i ? "," : "") + block_text(of, i);
    return all + "]}";
}

static inline text plan(const char *collective, bool packets, const std::vector<rank> &ranks)
{
    text all = text("{\"name\":\"test\",\"collective\":\"") + collective + "\",\"protocol\":\"" +
               (packets ? "LL" : "Simple") + "\",\"inplace\":false,\"num_threads_per_block\":64," +
               "\"use_double_scratch_buffer\":" + (packets ? "true" : "false") + ",\"gpus\":[";
    for (size_t i = 0; i < ranks.size(); i++)
        all += (i ? "," : "") + rank_text(ranks[i], i);
    return all + "]}";
}

} // namespace plan_text

#endif
