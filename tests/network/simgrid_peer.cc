#include "tests/network/simgrid_peer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <map>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace aurum {

namespace {

namespace s4u = simgrid::s4u;

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::vector<s4u::Host*> BuildStar(const SimGridNetwork& network) {
  std::vector<s4u::Host*> hosts;
  s4u::NetZone* zone = s4u::create_star_zone("star");
  for (std::uint32_t h = 0; h < network.star_hosts; ++h) {
    const std::string name = std::to_string(h);
    s4u::Host* host = zone->create_host(name, 1e9);
    const auto link = [&](const std::string& direction) {
      return zone->create_link(name + direction, network.bytes_per_s)
          ->set_latency(network.link_latency_s)
          ->seal();
    };
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {s4u::LinkInRoute(link("up"))},
                    false);
    zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr,
                    {s4u::LinkInRoute(link("down"))}, false);
    hosts.push_back(host);
  }
  zone->seal();
  return hosts;
}

std::vector<s4u::Host*> BuildFatTree(const SimGridNetwork& network) {
  const auto levels = static_cast<unsigned>(network.fat_tree_down.size());
  std::size_t count = 1;
  for (const unsigned down : network.fat_tree_down) count *= down;
  std::vector<s4u::Host*> hosts(count, nullptr);
  const s4u::FatTreeParams parameters(levels, network.fat_tree_down, network.fat_tree_up,
                                      std::vector<unsigned>(levels, 1));
  const s4u::ClusterCallbacks callbacks(
      [&](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        s4u::Host* host = zone->create_host(std::to_string(id), 1e9);
        if (id < hosts.size()) hosts[id] = host;
        return std::make_pair(host->get_netpoint(),
                              static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
      });
  s4u::create_fatTree_zone("tree", nullptr, parameters, callbacks, network.bytes_per_s,
                           network.link_latency_s, s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
  return hosts;
}

SimGridResult Simulate(const SimGridNetwork& network,
                       const std::vector<std::vector<SimGridFlow>>& chains, SimGridUpdate update) {
  static char program[] = "aurum";
  static char quiet[] = "--log=root.thres:error";
  static char* arguments[] = {program, quiet, nullptr};
  int count = 2;
  static s4u::Engine engine(&count, arguments);
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/TCP-gamma:0");
  if (update == SimGridUpdate::kFull) s4u::Engine::set_config("network/optim:Full");
  const std::vector<s4u::Host*> hosts =
      network.star_hosts > 0 ? BuildStar(network) : BuildFatTree(network);

  SimGridResult result;
  std::map<std::string, std::uint32_t> link_id;
  static std::vector<s4u::CommPtr> flows;  // 3.32 reads ended communications that nobody holds
  for (const std::vector<SimGridFlow>& chain : chains) {
    for (std::size_t i = 0; i < chain.size(); ++i) {
      s4u::Host* src = hosts[chain[i].src];
      s4u::Host* dst = hosts[chain[i].dst];
      std::vector<s4u::Link*> links;
      double latency = 0;
      src->route_to(dst, links, &latency);
      std::vector<std::uint32_t>& route = result.routes.emplace_back();
      for (const s4u::Link* link : links) {
        const auto next = static_cast<std::uint32_t>(link_id.size());
        route.push_back(link_id.try_emplace(link->get_name(), next).first->second);
      }
      flows.push_back(s4u::Comm::sendto_init(src, dst)->set_payload_size(
          static_cast<std::uint64_t>(chain[i].bytes)));
      if (i > 0) flows[flows.size() - 2]->add_successor(flows.back());
    }
  }
  for (const s4u::CommPtr& flow : flows) flow->vetoable_start();
  const double begin = CpuSeconds();
  engine.run();
  result.cpu_s = CpuSeconds() - begin;
  for (const s4u::CommPtr& flow : flows) result.end_s.push_back(flow->get_finish_time());
  return result;
}

template <typename T>
void Put(std::FILE* file, const std::vector<T>& values) {
  const std::size_t size = values.size();
  std::fwrite(&size, sizeof(size), 1, file);
  std::fwrite(values.data(), sizeof(T), size, file);
}

template <typename T>
std::vector<T> Take(std::FILE* file) {
  std::size_t size = 0;
  if (std::fread(&size, sizeof(size), 1, file) != 1) throw std::runtime_error("SimGrid failed");
  std::vector<T> values(size);
  if (std::fread(values.data(), sizeof(T), size, file) != size) {
    throw std::runtime_error("SimGrid failed");
  }
  return values;
}

}  // namespace

SimGridResult RunSimGrid(const SimGridNetwork& network,
                         const std::vector<std::vector<SimGridFlow>>& chains,
                         SimGridUpdate update) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe for SimGrid");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::FILE* file = fdopen(ends[1], "wb");
    const SimGridResult result = Simulate(network, chains, update);
    for (const std::vector<std::uint32_t>& route : result.routes) Put(file, route);
    Put(file, result.end_s);
    Put(file, std::vector<double>{result.cpu_s});
    std::fclose(file);
    _exit(0);  // SimGrid's own teardown is not ours to test
  }
  close(ends[1]);
  std::FILE* file = fdopen(ends[0], "rb");
  SimGridResult result;
  try {
    for (const std::vector<SimGridFlow>& chain : chains) {
      for (std::size_t i = 0; i < chain.size(); ++i) {
        result.routes.push_back(Take<std::uint32_t>(file));
      }
    }
    result.end_s = Take<double>(file);
    result.cpu_s = Take<double>(file).at(0);
  } catch (...) {
    std::fclose(file);
    waitpid(child, nullptr, 0);
    throw;
  }
  std::fclose(file);
  waitpid(child, nullptr, 0);
  return result;
}

}  // namespace aurum
