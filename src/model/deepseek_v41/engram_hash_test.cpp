#include "model/deepseek_v41/engram_hash.h"

#include <gtest/gtest.h>

#include "safetensors_fixture.h"

namespace di::v41 {
namespace {

EngramConfig flash_config() {
    EngramConfig config;
    config.layer_ids = {1, 14};
    config.max_ngram_size = 4;
    config.head_count = 8;
    config.head_dim = 256;
    config.vocab_size = 16000000;
    config.pad_token_id = 2;
    config.compressed_vocab_size = 99092;
    return config;
}

nlohmann::json flash_fixture() { return nlohmann::json::parse(read_fixture(DI_TEST_DATA "/units/engram_flash.json")); }

// Rows of one sequence cut into steps of at most `chunk` tokens.
std::vector<std::vector<int64_t>> rows_of(const EngramHash& hash, const EngramConfig& config, const std::vector<int32_t>& ids,
                                          const std::vector<uint8_t>& is_image, const std::vector<int32_t>& classes,
                                          size_t chunk) {
    std::vector<std::vector<int64_t>> all;
    const auto width = static_cast<size_t>(config.rows_per_token());
    for (size_t first = 0; first < ids.size(); first += chunk) {
        const size_t count = std::min(chunk, ids.size() - first);
        Batch batch;
        batch.token_ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(first),
                               ids.begin() + static_cast<std::ptrdiff_t>(first + count));
        batch.is_image.assign(is_image.begin() + static_cast<std::ptrdiff_t>(first),
                              is_image.begin() + static_cast<std::ptrdiff_t>(first + count));
        SequenceRows& sequence = batch.sequences.emplace_back();
        sequence.row_count = static_cast<int32_t>(count);
        for (size_t i = first < 3 ? 0 : first - 3; i < first; ++i) {
            sequence.history.push_back(is_image[i] != 0 ? kImageHistory : ids[i]);
        }
        std::vector<int64_t> rows;
        engram_step_rows(hash, config, classes, batch, rows);
        for (size_t row = 0; row < count; ++row) {
            all.emplace_back(rows.begin() + static_cast<std::ptrdiff_t>(row * width),
                             rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
        }
    }
    return all;
}

TEST(EngramHash, GivesTheReleasedConstants) {
    const nlohmann::json flash = flash_fixture();
    const std::vector<EngramHash> hashes = engram_hashes(flash_config());
    ASSERT_EQ(hashes.size(), 2U);
    for (size_t layer = 0; layer < hashes.size(); ++layer) {
        EXPECT_EQ(hashes[layer].primes, flash["primes"][layer].get<std::vector<int64_t>>());
        EXPECT_EQ(hashes[layer].offsets, flash["offsets"][layer].get<std::vector<int64_t>>());
        for (size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(std::to_string(hashes[layer].multipliers[i]), flash["multipliers"][layer][i].get<std::string>());
        }
        EXPECT_EQ(hashes[layer].offsets.back() + hashes[layer].primes.back(), flash["table_rows"][layer].get<int64_t>());
    }
}

TEST(EngramHash, RowsOfTextsAlsoWhenCutIntoSteps) {
    const nlohmann::json flash = flash_fixture();
    const EngramConfig config = flash_config();
    const std::vector<EngramHash> hashes = engram_hashes(config);
    const std::vector<int64_t> map =
        SafetensorsFixture(DI_TEST_DATA "/units/engram_token_map.safetensors").at("token_map").integers();
    const std::vector<int32_t> classes(map.begin(), map.end());
    for (const nlohmann::json& text : flash["cases"]) {
        const auto ids = text["ids"].get<std::vector<int32_t>>();
        for (size_t layer = 0; layer < hashes.size(); ++layer) {
            const auto want = text["hash_ids"][layer].get<std::vector<std::vector<int64_t>>>();
            for (const size_t chunk : {size_t{1}, size_t{2}, size_t{5}, ids.size()}) {
                EXPECT_EQ(rows_of(hashes[layer], config, ids, std::vector<uint8_t>(ids.size(), 0), classes, chunk), want)
                    << chunk;
            }
        }
    }
}

TEST(EngramHash, TextBehindAnImageDoesNotLookIntoIt) {
    const nlohmann::json flash = flash_fixture()["image_mask_case"];
    const EngramConfig config = flash_config();
    const std::vector<EngramHash> hashes = engram_hashes(config);
    const std::vector<int64_t> map =
        SafetensorsFixture(DI_TEST_DATA "/units/engram_token_map.safetensors").at("token_map").integers();
    const std::vector<int32_t> classes(map.begin(), map.end());
    const auto ids = flash["ids"].get<std::vector<int32_t>>();
    std::vector<uint8_t> is_image;
    for (const int is_text : flash["token_mask"].get<std::vector<int>>()) {
        is_image.push_back(is_text == 0 ? 1 : 0);
    }
    for (size_t layer = 0; layer < hashes.size(); ++layer) {
        const auto want = flash["hash_ids"][layer].get<std::vector<std::vector<int64_t>>>();
        for (const size_t chunk : {size_t{1}, size_t{3}, size_t{9}, ids.size()}) {
            const auto got = rows_of(hashes[layer], config, ids, is_image, classes, chunk);
            for (size_t row = 0; row < ids.size(); ++row) {
                if (is_image[row] == 0) {  // rows of image positions are looked up by nobody
                    EXPECT_EQ(got[row], want[row]) << "row " << row << " chunk " << chunk;
                }
            }
        }
    }
}

TEST(EngramHash, GivesThePublishedRows) {
    const std::vector<EngramHash> hashes = engram_hashes(flash_config());
    std::vector<int64_t> rows(24);
    engram_rows(hashes[0], std::vector<int32_t>{10, 20, 30, 40}, rows);
    EXPECT_EQ(rows,
              (std::vector<int64_t>{10250667,  16051853,  42761335,  48437066,  64953759,  91793642,  97213675,  124972355,
                                    130904169, 147647512, 174479789, 176217609, 193213014, 209711443, 226459680, 248375762,
                                    266647502, 284737834, 292200621, 319934002, 327756510, 339491046, 365830131, 381142068}));
    engram_rows(hashes[0], std::vector<int32_t>{5, 2, 2, 2}, rows);
    EXPECT_EQ((std::vector<int64_t>(rows.begin(), rows.begin() + 3)), (std::vector<int64_t>{5412672, 18319159, 35492627}));
}

TEST(EngramHash, MultipliersOfSmallVocabularies) {
    EngramConfig config;
    config.layer_ids = {1, 4};
    config.max_ngram_size = 4;
    config.head_count = 1;
    config.vocab_size = 97;
    config.compressed_vocab_size = 512;
    const std::vector<EngramHash> hashes = engram_hashes(config);
    EXPECT_EQ(hashes[0].multipliers,
              (std::vector<int64_t>{14831304026200453, 936705081716061, 6959601268494069, 14319439928568407}));
    EXPECT_EQ(hashes[1].multipliers,
              (std::vector<int64_t>{15920565596405625, 975009545214551, 14254820516660309, 3668506406680991}));
}

}  // namespace
}  // namespace di::v41
