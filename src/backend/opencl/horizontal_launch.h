// Horizontal programs: many bindings of one program in one launch, driven by a table in device
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/opencl/launch.h"

namespace volta::opencl {

// If the segments together use more memory objects than a kernel has base arguments, they are
// spread over several launches; a segment that does so alone runs as an ordinary kernel.
class HorizontalLaunch final : public Launch {
 public:
  HorizontalLaunch(DeviceContext& device, const plan::KernelStep& step, const PlanBlocks& blocks);

  void bind(const RunBuffers& buffers) override;
  void enqueue(const RunBuffers& buffers) override;
  HeldBytes held() const override;

 private:
  struct Segment {
    plan::Binding binding;
    std::int64_t blocks = 0;
    std::vector<Address> addresses;
    std::unique_ptr<KernelLaunch> alone;
  };
  // The contents of one launch: the rows of its table and the memory objects that the rows refer
  // to.
  struct Content {
    std::vector<std::uint64_t> words;
    std::vector<cl_mem> bases;
    std::size_t segments = 0;
    std::size_t blocks = 0;
  };
  struct Part {
    Kernel kernel;
    BufferHandle table;
    std::size_t capacity = 0;  // the table's size in words
    Content content;
  };

  void layout(const RunBuffers& buffers);
  void add(std::vector<Content>& contents, const Segment& segment) const;
  void update(Part& part, Content content, bool rebind);
  Part make_part();
  std::unique_ptr<KernelLaunch> make_alone(const Segment& segment);

  DeviceContext& device_;
  std::shared_ptr<const kernel::Program> program_;
  std::string label_;
  PlanBlocks blocks_;
  std::size_t threads_ = 0;
  cl_uint first_base_ = 0;  // index of the first base argument
  std::vector<Segment> segments_;
  bool laid_out_ = false;
  std::vector<Part> parts_;
  std::size_t used_parts_ = 0;
  std::vector<KernelLaunch*> alone_;
};

}  // namespace volta::opencl
